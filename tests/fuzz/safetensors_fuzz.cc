// A .safetensors file is refused in one line, or all its tensors lie inside it and are as long as their shape says. Matrices that
// it stores in several tensors are refused in one line, too, or can be read whole. An input that begins with '{' is the folder of an
// adapter, its configuration one line: what is not refused in one line changes matrices of the model by finite numbers of their shape.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "model/checkpoint/adapter.h"
#include "model/checkpoint/quantised_tensors.h"
#include "model/files/safetensors_file.h"
#include "tests/fuzz/fuzz.h"

namespace hydrant {
namespace {

constexpr HfQuantization kQuantizations[] = {
    {.packing = HfPacking::kPacked, .bits = 4, .symmetric = false, .group_cols = 32},
    {.packing = HfPacking::kPacked, .bits = 8, .group_index = true, .group_cols = 32},
    {.packing = HfPacking::kBytes},
    {.packing = HfPacking::kBytes, .fp8 = true, .group_cols = 40, .group_rows = 6},
    {.packing = HfPacking::kGptq, .bits = 4, .symmetric = false, .zero_offset = 1, .group_cols = 32},
    {.packing = HfPacking::kGptq, .bits = 8, .symmetric = false},
    {.packing = HfPacking::kAwq, .bits = 4, .symmetric = false, .group_cols = 32},
    {.packing = HfPacking::kMxfp4, .bits = 4},
};

void ReadAll(const RawTensor& tensor) {
  std::vector<std::byte> row(static_cast<size_t>(RowBytes(tensor.format, tensor.shape[1])));
  for (int64_t i = 0; i < tensor.shape[0]; ++i) tensor.rows->Read(i, i + 1, row.data());
}

AdapterTargets SmallTargets() {
  AdapterTargets targets;
  targets.Add("layers.0.mlp.up_proj", {.role = TensorRole::kUp, .rows = 3, .cols = 2});
  targets.Add("layers.0.qkv", {.role = TensorRole::kQ, .rows = 2, .cols = 2, .stored_rows = {0, 2}});
  targets.Add("layers.0.qkv", {.role = TensorRole::kK, .rows = 2, .cols = 2, .stored_rows = {1, 3}});
  return targets;
}

void CheckAdapter(std::string_view input) {
  static const auto& targets = *new AdapterTargets(SmallTargets());
  constexpr int32_t kRankMax = 4;
  const size_t end = std::min(input.find('\n'), input.size());
  const AdapterFiles files = {std::string(input.substr(0, end)),
                              std::string(input.substr(std::min(end + 1, input.size())))};
  const auto adapter = ParseAdapter(files, targets, kRankMax);
  if (!adapter.ok()) {
    Require(adapter.status().message().find('\n') == absl::string_view::npos, "a refusal is one line");
    return;
  }
  Require(!adapter->changes.empty() && adapter->rank >= 1 && adapter->rank <= kRankMax, "an adapter changes something");
  for (const auto& [place, change] : adapter->changes) {
    const size_t rows = place.second == TensorRole::kUp ? 3 : 2, rank = static_cast<size_t>(change.rank);
    Require(rank >= 1 && change.rank <= adapter->rank && std::isfinite(change.scale),
            "a change has a rank and a scale");
    const std::vector<float> a = change.a.Values(), b = change.b.Values();
    Require(a.size() == rank * 2 && b.size() == rows * rank, "A and B fit the matrix");
    for (const std::vector<float>* values : {&a, &b}) {
      Require(std::all_of(values->begin(), values->end(), [](float value) { return std::isfinite(value); }),
              "A and B are finite");
    }
  }
}

}  // namespace

void Fuzz(std::string_view input) {
  if (input.starts_with('{')) CheckAdapter(input);
  const auto tensors = ParseSafetensors(input, "m.safetensors");
  if (!tensors.ok()) {
    Require(tensors.status().message().find('\n') == absl::string_view::npos, "a refusal is one line");
    return;
  }
  for (const RawTensor& tensor : *tensors) {
    if (tensor.data.empty()) continue;
    Require(
        tensor.data.data() >= input.data() && tensor.data.data() + tensor.data.size() <= input.data() + input.size(),
        "a tensor lies inside the file");
  }
  for (const HfQuantization& quantization : kQuantizations) {
    std::vector<RawTensor> joined = *tensors;
    std::vector<std::string> warnings;
    if (const absl::Status status = JoinQuantised(quantization, joined, warnings); !status.ok()) {
      Require(status.message().find('\n') == absl::string_view::npos, "a refusal is one line");
      continue;
    }
    for (const RawTensor& tensor : joined) {
      if (tensor.rows != nullptr) ReadAll(tensor);
    }
  }
}

}  // namespace hydrant
