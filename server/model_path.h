// FindModel finds the model that an operator names: a path, or the name of a repository on a Hugging Face hub, whose files lie
// in the hub's local cache. Nothing is fetched here; `./hydrant fetch` does that.
//
// Thread: any.
#ifndef HYDRANT_SERVER_MODEL_PATH_H_
#define HYDRANT_SERVER_MODEL_PATH_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace hydrant {

// A model on a hub: `org/name`, or `org/name:Q4_K_M` for one GGUF file of several.
struct HubName {
  std::string repository;  // "org/name"
  std::string format;      // "Q4_K_M"; empty: none was named
};

// Whether `name` has the form of one: letters, digits, '.', '_' and '-' around one '/', and no part is "." or "..".
bool ParseHubName(std::string_view name, HubName* parsed);

// The folder of the cache, as the package huggingface_hub finds it: HF_HUB_CACHE, else HF_HOME/hub, else
// XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub.
std::string HubCache();

struct FoundModel {
  std::string path;  // of a checkpoint directory or a .gguf file
  std::string
      name;  // what clients call it by default: the hub's name, or that of the folder, or of the file without ".gguf"
  std::string root;  // what was loaded, for /v1/models: `name`, with ".gguf"
};

// What `model` means. What exists as a path is that path. A hub's name means the snapshot of `main` in `cache`, or a GGUF file
// in it: the one of the format named, else the only one.
// Errors: NotFound where there is nothing of this name, and what would bring it; InvalidArgument where the name could mean
// several files.
absl::StatusOr<FoundModel> FindModel(const std::string& model, const std::string& cache);

// What can be loaded, for programs that choose a model: {"model_type":["llama",…],"gguf":["llama",…]}, the first as in a
// config.json, the second as in a GGUF file's `general.architecture`.
std::string ModelFamiliesJson();

}  // namespace hydrant

#endif  // HYDRANT_SERVER_MODEL_PATH_H_
