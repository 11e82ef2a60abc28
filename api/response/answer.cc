#include "api/response/answer.h"

#include "api/wire/json_writer.h"

namespace hydrant {

std::string_view AnswerFinishName(FinishReason reason) {
  static constexpr std::string_view kNames[kFinishReasons] = {
      "",      "stop", "stop",  "length", "abort", "abort", "abort", "abort",
      "abort", "stop", "abort", "abort",  "abort", "abort", "abort",
  };
  return kNames[static_cast<size_t>(reason)];
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

void AppendTokenLogprob(std::string* out, std::string_view token, std::string_view bytes, float logprob) {
  out->append("{\"token\":");
  AppendJsonString(out, token);
  out->append(",\"logprob\":");
  AppendJsonFloat(out, logprob);
  out->append(",\"bytes\":[");
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out->push_back(',');
    AppendJsonInteger(out, static_cast<unsigned char>(bytes[i]));
  }
  out->push_back(']');
}

std::string LogprobTokenId(int32_t id) { return "token_id:" + std::to_string(id); }

void AppendPromptLogprobs(std::string* out, const std::vector<PositionLogprobs>& positions) {
  const auto append_token = [&](int32_t id, float logprob, int32_t rank, std::string_view bytes) {
    if (out->back() != '{') out->push_back(',');
    out->push_back('"');
    AppendJsonInteger(out, id);
    out->append("\":{\"logprob\":");
    AppendJsonFloat(out, logprob);
    out->append(",\"rank\":");
    AppendJsonInteger(out, rank);
    out->append(",\"decoded_token\":");
    AppendJsonString(out, bytes);
    out->push_back('}');
  };
  out->push_back('[');
  for (size_t i = 0; i < positions.size(); ++i) {
    const PositionLogprobs& position = positions[i];
    if (i > 0) out->push_back(',');
    if (!position.logprob.has_value()) {
      out->append("null");
      continue;
    }
    out->push_back('{');
    append_token(position.id, *position.logprob, position.rank, position.bytes);
    for (size_t best = 0; best < position.top.size(); ++best) {
      const LogprobCandidate& candidate = position.top[best];
      if (candidate.id == position.id) continue;
      append_token(candidate.id, candidate.logprob, static_cast<int32_t>(best) + 1, candidate.bytes);
    }
    out->push_back('}');
  }
  out->push_back(']');
}

void AppendStopReason(std::string* out, const StopReason& reason) {
  if (const auto* text = std::get_if<std::string>(&reason)) {
    AppendJsonString(out, *text);
  } else if (const auto* id = std::get_if<int32_t>(&reason)) {
    AppendJsonInteger(out, *id);
  } else {
    out->append(std::holds_alternative<ClosedAtLimit>(reason) ? "\"closed_at_limit\"" : "null");
  }
}

void AppendIdsOrNull(std::string* out, const std::vector<int32_t>* ids) {
  if (ids == nullptr) {
    out->append("null");
  } else {
    AppendJsonIntegers(out, *ids);
  }
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
  out->push_back('}');
  if (usage.reasoning_tokens.has_value()) {
    out->append(",\"completion_tokens_details\":{\"reasoning_tokens\":");
    AppendJsonInteger(out, *usage.reasoning_tokens);
    out->push_back('}');
  }
  out->push_back('}');
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

void AppendTurnMember(std::string* out, const TurnReport& turn) {
  out->append(",\"hydrant\":{\"turn\":");
  AppendJsonInteger(out, static_cast<int64_t>(turn.turn));
  out->append(",\"durable\":");
  if (turn.durable == Durability::kNone) {
    out->append("false");
  } else {
    out->append("\"").append(DurabilityName(turn.durable)).append("\"");
  }
  out->append(",\"resumed\":");
  AppendJsonBool(out, turn.resumed);
  out->push_back('}');
}

void AppendFingerprintMember(std::string* out, const AnswerHead& head) {
  out->append(",\"system_fingerprint\":");
  AppendJsonStringOrNull(out, head.system_fingerprint);
}

void AppendAnswerEnd(std::string* out, const Usage& usage, const KvReport* kv, std::string_view fingerprint,
                     const TurnReport* turn) {
  AppendUsageMember(out, usage);
  if (kv != nullptr) AppendKvMember(out, *kv);
  if (turn != nullptr) AppendTurnMember(out, *turn);
  out->append(fingerprint);
  out->push_back('}');
}

void AppendChunkEnd(std::string* out, const AnswerDelta& delta, std::string_view finish, std::string_view fingerprint,
                    PromptPlace place) {
  out->append(",\"finish_reason\":");
  AppendJsonStringOrNull(out, finish);
  out->append(",\"stop_reason\":");
  AppendStopReason(out, delta.stop_reason != nullptr ? *delta.stop_reason : StopReason());
  if (place == PromptPlace::kChoice) {
    out->append(",\"prompt_token_ids\":");
    AppendIdsOrNull(out, delta.prompt_token_ids);
  }
  out->append(",\"token_ids\":");
  AppendIdsOrNull(out, delta.token_ids);
  out->append("}]");
  if (place == PromptPlace::kAnswer && delta.prompt_token_ids != nullptr) {
    out->append(",\"prompt_token_ids\":");
    AppendIdsOrNull(out, delta.prompt_token_ids);
  }
  if (delta.usage != nullptr) AppendUsageMember(out, *delta.usage);
  if (delta.kv != nullptr) AppendKvMember(out, *delta.kv);
  if (delta.turn != nullptr) AppendTurnMember(out, *delta.turn);
  out->append(fingerprint);
  out->append("}\n\n");
}

void AppendAnswerHead(std::string* out, const AnswerHead& head, std::string_view object) {
  out->append("{\"id\":");
  AppendJsonString(out, head.id);
  out->append(",\"object\":");
  AppendJsonString(out, object);
  out->append(",\"created\":");
  AppendJsonInteger(out, head.created);
  out->append(",\"model\":");
  AppendJsonString(out, head.model);
}

}  // namespace hydrant
