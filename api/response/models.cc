#include "api/response/models.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "api/wire/json_writer.h"

namespace hydrant {
namespace {

constexpr int64_t kBlockTokens = 16;

// Each begins with `before`.
void AppendText(std::string* out, std::string_view before, std::string_view name, std::string_view value) {
  absl::StrAppend(out, std::string(before), "\"", std::string(name), "\":");
  AppendJsonString(out, value);
}

std::string TimeText(int64_t unix_s) {
  std::array<char, 40> text;
  const auto time = static_cast<std::time_t>(unix_s);
  std::tm utc{};
  gmtime_r(&time, &utc);
  return std::string(text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc));
}

void AppendModel(std::string* out, const ModelCard& card) {
  out->append("{\"id\":");
  AppendJsonString(out, card.id);
  out->append(",\"object\":\"model\",\"created\":");
  AppendJsonInteger(out, card.created);
  out->append(",\"owned_by\":\"hydrant\",\"root\":");
  AppendJsonString(out, card.root);
  out->append(",\"parent\":");
  if (card.parent.empty()) {
    out->append("null");
  } else {
    AppendJsonString(out, card.parent);
  }
  out->append(",\"max_model_len\":");
  AppendJsonInteger(out, card.max_model_len);
  out->append(",\"kv_block_bytes\":");
  AppendJsonInteger(out, card.kv_block_bytes);
  out->append(",\"kv_policies\":[");
  for (size_t i = 0; i < card.kv_policies.size(); ++i) {
    if (i > 0) out->push_back(',');
    AppendJsonString(out, card.kv_policies[i]);
  }
  out->append(card.kv_recalls ? "],\"kv_recall\":\"turn\"" : "],\"kv_recall\":\"off\"");
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

std::string MessagesModelJson(const ModelCard& card) {
  std::string out;
  AppendText(&out, "{\"type\":\"model\",", "id", card.id);
  AppendText(&out, ",", "display_name", card.id);
  AppendText(&out, ",", "created_at", TimeText(card.created));
  absl::StrAppend(&out, ",\"lifecycle\":\"active\",\"max_input_tokens\":", card.max_model_len,
                  ",\"max_tokens\":", card.max_model_len, "}");
  return out;
}

std::string MessagesModelListJson(const std::vector<ModelCard>& cards) {
  std::string out = "{\"data\":[";
  for (size_t i = 0; i < cards.size(); ++i) {
    absl::StrAppend(&out, i > 0 ? "," : "", MessagesModelJson(cards[i]));
  }
  AppendText(&out, "],", "first_id", cards.front().id);
  AppendText(&out, ",", "last_id", cards.back().id);
  out.append(",\"has_more\":false}");
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

std::string ServerInfoJson(const ServerFacts& facts) {
  std::string out;
  AppendText(&out, "{", "model_path", facts.model.root);
  AppendText(&out, ",", "tokenizer_path", facts.model.root);
  AppendText(&out, ",", "served_model_name", facts.model.id);
  AppendText(&out, ",", "version", facts.version);
  const int64_t tokens = facts.blocks * kBlockTokens;
  absl::StrAppend(&out, ",\"context_length\":", facts.model.max_model_len, ",\"max_total_num_tokens\":", tokens,
                  ",\"max_running_requests\":", facts.sequences_max, ",\"page_size\":", kBlockTokens,
                  ",\"tp_size\":", facts.ranks,
                  ",\"dp_size\":1,\"pp_size\":1,\"is_embedding\":false,"
                  "\"disaggregation_mode\":\"null\"}");
  return out;
}

std::string ModelInfoJson(const ServerFacts& facts) {
  std::string out;
  AppendText(&out, "{", "model_path", facts.model.root);
  AppendText(&out, ",", "tokenizer_path", facts.model.root);
  out.append(
      ",\"is_generation\":true,\"preferred_sampling_params\":null,\"weight_version\":null,"
      "\"has_image_understanding\":false,\"has_audio_understanding\":false}");
  return out;
}

std::string LoadsJson(const ServerLoads& loads, const ServerFacts& facts) {
  const int64_t all = loads.running + loads.waiting;
  const double usage = facts.blocks > 0 ? static_cast<double>(loads.blocks_used) / facts.blocks : 0;
  const double utilization = static_cast<double>(loads.running) / std::max(facts.sequences_max, 1);
  std::string out;
  AppendText(&out, "{", "timestamp", TimeText(loads.time));
  AppendText(&out, ",", "version", facts.version);
  absl::StrAppend(&out, ",\"dp_rank_count\":1,\"loads\":[{\"dp_rank\":0,\"num_running_reqs\":", loads.running,
                  ",\"num_waiting_reqs\":", loads.waiting, ",\"num_total_reqs\":", all,
                  ",\"num_used_tokens\":", loads.blocks_used * kBlockTokens,
                  ",\"max_total_num_tokens\":", facts.blocks * kBlockTokens, ",\"token_usage\":", usage);
  absl::StrAppend(&out, ",\"utilization\":", utilization, ",\"max_running_requests\":", facts.sequences_max,
                  ",\"num_parked_tokens\":", loads.parked_blocks * kBlockTokens,
                  "}],\"aggregate\":{\"total_running_reqs\":", loads.running, ",\"total_waiting_reqs\":", loads.waiting,
                  ",\"total_reqs\":", all, ",\"avg_token_usage\":", usage);
  absl::StrAppend(&out, ",\"avg_utilization\":", utilization, "}}");
  return out;
}

}  // namespace hydrant
