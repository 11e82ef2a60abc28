// AdapterTargets says which matrices of a model adapters (LoRA) can change, by the names that PEFT has for the modules, and how their
// rows lie in a file.
//
// Thread: any (immutable once made).
#ifndef HYDRANT_MODEL_CHECKPOINT_ADAPTER_TARGETS_H_
#define HYDRANT_MODEL_CHECKPOINT_ADAPTER_TARGETS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint/tensor_source.h"

namespace hydrant {

struct Checkpoint;

// One matrix; where several share a module (q, k and v in one), each is a target of its own.
struct AdapterTarget {
  TensorRole role = TensorRole::kQ;
  int32_t layer = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<int32_t> stored_rows = {};  // [rows]: which row of the module each is; empty: the first, in their order
};

class AdapterTargets {
 public:
  // Those of the attention and the MLP of every layer; an MLP of experts is none. Of a .gguf file the modules have the names that
  // they have in the library's checkpoints of the llama family.
  static AdapterTargets Of(const Checkpoint& checkpoint);

  // A table made by hand. `module` is without what all names begin with: "model.layers.0.self_attn.q_proj".
  void Add(std::string_view module, AdapterTarget target);

  // Those that share a module; empty: the model has no such module, or adapters cannot change it.
  const std::vector<AdapterTarget>& Find(std::string_view module) const;
  // Rows of a module: of all its targets.
  static int64_t RowsOf(const std::vector<AdapterTarget>& module);
  // Bytes that an adapter of this rank for all of them may take in a file, its table included.
  int64_t FileBytesMax(int32_t rank) const;

 private:
  std::map<std::string, std::vector<AdapterTarget>, std::less<>> modules_;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CHECKPOINT_ADAPTER_TARGETS_H_
