// Bodies of GET /v1/models, GET /v1/models/{id}, GET /version and GET /load.
//
// Thread: any (plain data, pure functions).
#ifndef HYDRANT_API_RESPONSE_MODELS_H_
#define HYDRANT_API_RESPONSE_MODELS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hydrant {

struct ModelCard {
  std::string id;
  int64_t created = 0;  // Unix seconds
  std::string root;     // what was loaded: the folder's or file's name, never an absolute path
  int32_t max_model_len = 0;
  int64_t kv_block_bytes = 0;  // that 16 tokens take in the KV cache, in all layers and heads
};

std::string ModelJson(const ModelCard& card);
// {"object":"list","data":[…]}
std::string ModelListJson(const std::vector<ModelCard>& cards);
// {"version":"…"}
std::string VersionJson(std::string_view version);
// {"server_load":n}
std::string LoadJson(int64_t server_load);

}  // namespace hydrant

#endif  // HYDRANT_API_RESPONSE_MODELS_H_
