// Bodies of GET /v1/models, GET /v1/models/{id}, GET /version and GET /load, and of what gateways ask: /server_info, /model_info,
// /v1/loads, in the words of SGLang, whose they are.
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
  int64_t kv_block_bytes = 0;                 // that 16 tokens take in the KV cache, in all layers and heads
  std::string parent = {};                    // of an adapter, the model that it changes; empty: it is none
  std::vector<std::string> kv_policies = {};  // that a request may name
  bool kv_recalls = false;                    // `recall` of a request that does not say is "turn"
};

std::string ModelJson(const ModelCard& card);
// {"object":"list","data":[…]}
std::string ModelListJson(const std::vector<ModelCard>& cards);
// The same as Anthropic's clients read them.
std::string MessagesModelJson(const ModelCard& card);
// {"data":[…],"first_id":…,"last_id":…,"has_more":false}. REQUIRES: there is a card.
std::string MessagesModelListJson(const std::vector<ModelCard>& cards);
// {"version":"…"}
std::string VersionJson(std::string_view version);
// {"server_load":n}
std::string LoadJson(int64_t server_load);

// What does not change while a server runs.
struct ServerFacts {
  ModelCard model;
  std::string version;
  int32_t blocks = 0;  // of the KV pool
  int32_t sequences_max = 0;
  int32_t ranks = 1;  // that compute the model together
};

struct ServerLoads {
  int64_t time = 0;  // Unix seconds
  int32_t running = 0;
  int32_t waiting = 0;
  int32_t blocks_used = 0;
  int64_t parked_blocks = 0;  // outside the pool
};

// Sizes in tokens: a block has 16.
std::string ServerInfoJson(const ServerFacts& facts);
std::string ModelInfoJson(const ServerFacts& facts);
// One rank, and the same as the aggregate of all.
std::string LoadsJson(const ServerLoads& loads, const ServerFacts& facts);

}  // namespace hydrant

#endif  // HYDRANT_API_RESPONSE_MODELS_H_
