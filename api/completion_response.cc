#include "api/completion_response.h"

#include <cassert>

#include "api/json_writer.h"
#include "api/sse.h"

namespace hydrant {
namespace {

void AppendStopReason(std::string* out, const StopReason& reason) {
  if (const auto* text = std::get_if<std::string>(&reason)) {
    AppendJsonString(out, *text);
  } else if (const auto* id = std::get_if<int32_t>(&reason)) {
    AppendJsonInteger(out, *id);
  } else {
    out->append("null");
  }
}

void AppendIdsOrNull(std::string* out, const std::vector<int32_t>* ids) {
  if (ids == nullptr) {
    out->append("null");
  } else {
    AppendJsonIntegers(out, *ids);
  }
}

// The candidates of one position as an object from text to log-probability. A JSON object has each name once, and two
// tokens may have the same text; the position's own token keeps its text, then the better one, and the others are named
// token_id:N so that none is lost.
void AppendTopLogprobs(std::string* out, const PositionLogprobs& position) {
  if (!position.logprob.has_value()) {
    out->append("null");
    return;
  }
  const auto text_is_taken = [&](size_t i) {
    const LogprobCandidate& candidate = position.top[i];
    if (candidate.text == position.text) return true;
    for (size_t j = 0; j < i; ++j) {
      if (position.top[j].text == candidate.text) return true;
    }
    return false;
  };
  const auto append_member = [&](std::string_view name, float logprob) {
    if (out->back() != '{') out->push_back(',');
    AppendJsonString(out, name);
    out->push_back(':');
    AppendJsonFloat(out, logprob);
  };
  out->push_back('{');
  bool has_own_token = false;
  for (size_t i = 0; i < position.top.size(); ++i) {
    const LogprobCandidate& candidate = position.top[i];
    if (candidate.id == position.id) {
      append_member(position.text, *position.logprob);
      has_own_token = true;
    } else if (text_is_taken(i)) {
      append_member("token_id:" + std::to_string(candidate.id), candidate.logprob);
    } else {
      append_member(candidate.text, candidate.logprob);
    }
  }
  if (!has_own_token) append_member(position.text, *position.logprob);
  out->push_back('}');
}

void AppendLogprobs(std::string* out, const std::vector<PositionLogprobs>& positions) {
  const auto append_list = [&](std::string_view name, const auto& append_one) {
    out->append(name);
    for (size_t i = 0; i < positions.size(); ++i) {
      if (i > 0) out->push_back(',');
      append_one(positions[i]);
    }
    out->push_back(']');
  };
  append_list("{\"text_offset\":[", [&](const PositionLogprobs& p) { AppendJsonInteger(out, p.text_offset); });
  append_list(",\"token_logprobs\":[", [&](const PositionLogprobs& p) {
    if (p.logprob.has_value()) {
      AppendJsonFloat(out, *p.logprob);
    } else {
      out->append("null");
    }
  });
  append_list(",\"tokens\":[", [&](const PositionLogprobs& p) { AppendJsonString(out, p.text); });
  append_list(",\"top_logprobs\":[", [&](const PositionLogprobs& p) { AppendTopLogprobs(out, p); });
  out->push_back('}');
}

void AppendUsageMember(std::string* out, const Usage& usage) {
  out->append(",\"usage\":{\"prompt_tokens\":");
  AppendJsonInteger(out, usage.prompt_tokens);
  out->append(",\"completion_tokens\":");
  AppendJsonInteger(out, usage.completion_tokens);
  out->append(",\"total_tokens\":");
  AppendJsonInteger(out, usage.prompt_tokens + usage.completion_tokens);
  out->append(",\"prompt_tokens_details\":{\"cached_tokens\":");
  AppendJsonInteger(out, usage.cached_tokens);
  out->append("}}");
}

void AppendKvMember(std::string* out, const KvReport& kv) {
  out->append(",\"kv\":{\"live\":");
  AppendJsonInteger(out, kv.live);
  out->append(",\"budget\":");
  if (kv.budget > 0) {
    AppendJsonInteger(out, kv.budget);
  } else {
    out->append("null");
  }
  out->append(",\"evicted\":");
  AppendJsonInteger(out, kv.evicted);
  out->append(",\"blocks\":");
  AppendJsonInteger(out, kv.blocks);
  out->append(",\"session\":");
  AppendJsonStringOrNull(out, kv.session);
  out->push_back('}');
}

void AppendHead(std::string* out, const CompletionHead& head) {
  out->append("{\"id\":");
  AppendJsonString(out, head.id);
  out->append(",\"object\":\"text_completion\",\"created\":");
  AppendJsonInteger(out, head.created);
  out->append(",\"model\":");
  AppendJsonString(out, head.model);
}

std::string FingerprintMember(const CompletionHead& head) {
  std::string member = ",\"system_fingerprint\":";
  AppendJsonStringOrNull(&member, head.system_fingerprint);
  return member;
}

void AppendChoice(std::string* out, const CompletionChoice& choice) {
  out->append("{\"index\":");
  AppendJsonInteger(out, choice.index);
  out->append(",\"text\":");
  AppendJsonString(out, choice.text);
  out->append(",\"logprobs\":");
  if (choice.logprobs.has_value()) {
    AppendLogprobs(out, *choice.logprobs);
  } else {
    out->append("null");
  }
  out->append(",\"finish_reason\":");
  AppendJsonString(out, CompletionFinishName(choice.finish_reason));
  out->append(",\"stop_reason\":");
  AppendStopReason(out, choice.stop_reason);
  out->append(",\"prompt_logprobs\":null,\"prompt_token_ids\":");
  AppendIdsOrNull(out, choice.prompt_token_ids.has_value() ? &*choice.prompt_token_ids : nullptr);
  out->append(",\"token_ids\":");
  AppendIdsOrNull(out, choice.token_ids.has_value() ? &*choice.token_ids : nullptr);
  out->push_back('}');
}

}  // namespace

std::string_view CompletionFinishName(CompletionFinish reason) {
  switch (reason) {
    case CompletionFinish::kStop:
      return "stop";
    case CompletionFinish::kLength:
      return "length";
    case CompletionFinish::kAbort:
      break;
  }
  return "abort";
}

std::string LogprobTokenText(std::string_view bytes) {
  if (IsValidUtf8(bytes)) return std::string(bytes);
  constexpr char kHex[] = "0123456789abcdef";
  std::string text = "bytes:";
  for (const char byte : bytes) {
    text.append("\\x");
    text.push_back(kHex[static_cast<uint8_t>(byte) >> 4]);
    text.push_back(kHex[static_cast<uint8_t>(byte) & 15]);
  }
  return text;
}

std::string CompletionJson(const CompletionResponse& response) {
  std::string out;
  AppendHead(&out, response.head);
  out.append(",\"choices\":[");
  for (size_t i = 0; i < response.choices.size(); ++i) {
    assert(i == 0 || response.choices[i - 1].index < response.choices[i].index);
    if (i > 0) out.push_back(',');
    AppendChoice(&out, response.choices[i]);
  }
  out.push_back(']');
  AppendUsageMember(&out, response.usage);
  if (response.kv.has_value()) AppendKvMember(&out, *response.kv);
  out.append(FingerprintMember(response.head));
  out.push_back('}');
  return out;
}

CompletionStream::CompletionStream(const CompletionHead& head)
    : prefix_("data: "), fingerprint_member_(FingerprintMember(head)) {
  AppendHead(&prefix_, head);
  prefix_.append(",\"choices\":[");
}

void CompletionStream::AppendChunk(std::string* out, const CompletionDelta& delta) const {
  out->append(prefix_);
  out->append("{\"index\":");
  AppendJsonInteger(out, delta.index);
  out->append(",\"text\":");
  AppendJsonString(out, delta.text);
  const bool plain = delta.logprobs == nullptr && !delta.finish_reason.has_value() && delta.token_ids == nullptr &&
                     delta.prompt_token_ids == nullptr && delta.usage == nullptr && delta.kv == nullptr;
  if (plain) {
    out->append(
        ",\"logprobs\":null,\"finish_reason\":null,\"stop_reason\":null,\"prompt_token_ids\":null,\"token_ids\":null}]}"
        "\n\n");
    return;
  }
  out->append(",\"logprobs\":");
  if (delta.logprobs != nullptr) {
    AppendLogprobs(out, *delta.logprobs);
  } else {
    out->append("null");
  }
  out->append(",\"finish_reason\":");
  AppendJsonStringOrNull(out, delta.finish_reason.has_value() ? CompletionFinishName(*delta.finish_reason) : "");
  out->append(",\"stop_reason\":");
  AppendStopReason(out, delta.stop_reason != nullptr ? *delta.stop_reason : StopReason());
  out->append(",\"prompt_token_ids\":");
  AppendIdsOrNull(out, delta.prompt_token_ids);
  out->append(",\"token_ids\":");
  AppendIdsOrNull(out, delta.token_ids);
  out->append("}]");
  if (delta.usage != nullptr) AppendUsageMember(out, *delta.usage);
  if (delta.kv != nullptr) AppendKvMember(out, *delta.kv);
  if (delta.finish_reason.has_value()) out->append(fingerprint_member_);
  out->append("}\n\n");
}

void CompletionStream::AppendUsage(std::string* out, const Usage& usage, const KvReport* kv) const {
  out->append(prefix_);
  out->push_back(']');
  AppendUsageMember(out, usage);
  if (kv != nullptr) AppendKvMember(out, *kv);
  out->append(fingerprint_member_);
  out->append("}\n\n");
}

}  // namespace hydrant
