#include "model/checkpoint/adapter_targets.h"

#include <utility>

#include "model/checkpoint/checkpoint.h"
#include "model/text/str_cat.h"

namespace hydrant {
namespace {

struct Named {
  TensorRole role;
  std::string_view module;  // in a layer of llama's
};
constexpr Named kRoles[] = {
    {TensorRole::kQ, "self_attn.q_proj"}, {TensorRole::kK, "self_attn.k_proj"}, {TensorRole::kV, "self_attn.v_proj"},
    {TensorRole::kO, "self_attn.o_proj"}, {TensorRole::kGate, "mlp.gate_proj"}, {TensorRole::kUp, "mlp.up_proj"},
    {TensorRole::kDown, "mlp.down_proj"},
};

// What a model is called that was saved without its head may be missing in front.
std::string_view Canonical(std::string_view module) {
  constexpr std::string_view kModel = "model.";
  return module.starts_with(kModel) ? module.substr(kModel.size()) : module;
}

// The name of the module whose weight the tensor is; empty: that cannot be told from it.
std::string ModuleOf(const TensorSource& source, const Named& named, int32_t layer) {
  constexpr std::string_view kWeight = ".weight", kGguf = "blk.";
  const std::string_view name = source.name();
  if (!name.ends_with(kWeight)) return {};
  if (!name.starts_with(kGguf)) return std::string(name.substr(0, name.size() - kWeight.size()));
  // Rows that share a tensor there are in another order than in the library's modules.
  const bool fused = name.find("qkv") != name.npos;
  return fused ? std::string() : StrCat("layers.", layer, ".", named.module);
}

// A file's own order, as it is in the library's modules; a .gguf file's is undone when it is read.
std::vector<int32_t> StoredRows(const TensorSource& source) {
  std::vector<int32_t> rows;
  if (source.name().starts_with("blk.")) return rows;
  bool same = true;
  for (int64_t row = 0; row < source.rows(); ++row) {
    rows.push_back(static_cast<int32_t>(source.StoredRow(row)));
    same &= rows.back() == row;
  }
  if (same) rows.clear();
  return rows;
}

constexpr int64_t kTableBytes = int64_t{4} << 20;

}  // namespace

AdapterTargets AdapterTargets::Of(const Checkpoint& checkpoint) {
  AdapterTargets targets;
  for (int32_t layer = 0; layer < checkpoint.config.layers; ++layer) {
    for (const Named& named : kRoles) {
      const TensorSource* source = checkpoint.tensors.Find(named.role, layer);
      if (source == nullptr) continue;
      const std::string module = ModuleOf(*source, named, layer);
      if (module.empty()) continue;
      targets.Add(module, {.role = named.role,
                           .layer = layer,
                           .rows = source->rows(),
                           .cols = source->cols(),
                           .stored_rows = StoredRows(*source)});
    }
  }
  return targets;
}

void AdapterTargets::Add(std::string_view module, AdapterTarget target) {
  modules_[std::string(Canonical(module))].push_back(std::move(target));
}

const std::vector<AdapterTarget>& AdapterTargets::Find(std::string_view module) const {
  static const auto& none = *new std::vector<AdapterTarget>;
  const auto found = modules_.find(Canonical(module));
  return found != modules_.end() ? found->second : none;
}

int64_t AdapterTargets::RowsOf(const std::vector<AdapterTarget>& module) {
  int64_t rows = 0;
  for (const AdapterTarget& target : module) rows += target.rows;
  return rows;
}

int64_t AdapterTargets::FileBytesMax(int32_t rank) const {
  int64_t elements = 0;
  for (const auto& [name, module] : modules_) elements += rank * (module.front().cols + RowsOf(module));
  return elements * static_cast<int64_t>(sizeof(float)) + kTableBytes;
}

}  // namespace hydrant
