// A .safetensors file is refused in one line, or all its tensors lie inside it and are as long as their shape says. Matrices that
// it stores in several tensors are refused in one line, too, or can be read whole.
#include <algorithm>
#include <string>
#include <vector>

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

}  // namespace

void Fuzz(std::string_view input) {
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
