#include "api/response/models.h"

#include "api/wire/json_writer.h"

namespace hydrant {
namespace {

void AppendModel(std::string* out, const ModelCard& card) {
  out->append("{\"id\":");
  AppendJsonString(out, card.id);
  out->append(",\"object\":\"model\",\"created\":");
  AppendJsonInteger(out, card.created);
  out->append(",\"owned_by\":\"hydrant\",\"root\":");
  AppendJsonString(out, card.root);
  out->append(",\"parent\":null,\"max_model_len\":");
  AppendJsonInteger(out, card.max_model_len);
  out->append(",\"kv_block_bytes\":");
  AppendJsonInteger(out, card.kv_block_bytes);
  // OpenAI dropped `permission` long ago; clients of vLLM's server still read it.
  out->append(",\"permission\":[{\"id\":");
  AppendJsonString(out, "modelperm-" + card.id);
  out->append(",\"object\":\"model_permission\",\"created\":");
  AppendJsonInteger(out, card.created);
  out->append(
      ",\"allow_create_engine\":false,\"allow_sampling\":true,\"allow_logprobs\":true,\"allow_search_indices\":false,"
      "\"allow_view\":true,\"allow_fine_tuning\":false,\"organization\":\"*\",\"group\":null,\"is_blocking\":false}]}");
}

}  // namespace

std::string ModelJson(const ModelCard& card) {
  std::string out;
  AppendModel(&out, card);
  return out;
}

std::string ModelListJson(const std::vector<ModelCard>& cards) {
  std::string out = "{\"object\":\"list\",\"data\":[";
  for (size_t i = 0; i < cards.size(); ++i) {
    if (i > 0) out.push_back(',');
    AppendModel(&out, cards[i]);
  }
  out.append("]}");
  return out;
}

std::string VersionJson(std::string_view version) {
  std::string out = "{\"version\":";
  AppendJsonString(&out, version);
  out.push_back('}');
  return out;
}

std::string LoadJson(int64_t server_load) {
  std::string out = "{\"server_load\":";
  AppendJsonInteger(&out, server_load);
  out.push_back('}');
  return out;
}

}  // namespace hydrant
