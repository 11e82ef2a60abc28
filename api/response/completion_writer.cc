#include "api/response/completion_writer.h"

#include <cassert>

#include "api/response/sse.h"
#include "api/wire/json_writer.h"

namespace hydrant {
namespace {

constexpr std::string_view kObject = "text_completion";

std::string TokenName(int32_t id, const std::string& bytes, bool as_id) {
  return as_id ? LogprobTokenId(id) : LogprobTokenText(bytes);
}

// The candidates of one position as an object from text to log-probability. A JSON object has each name once, and two
// tokens may have the same text; the position's own token keeps its text, then the better one, and the others are named
// token_id:N so that none is lost.
void AppendTopLogprobs(std::string* out, const PositionLogprobs& position, bool as_ids) {
  if (!position.logprob.has_value()) {
    out->append("null");
    return;
  }
  const auto bytes_are_taken = [&](size_t i) {
    const LogprobCandidate& candidate = position.top[i];
    if (as_ids || candidate.bytes == position.bytes) return true;
    for (size_t j = 0; j < i; ++j) {
      if (position.top[j].bytes == candidate.bytes) return true;
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
  const std::string own = TokenName(position.id, position.bytes, as_ids);
  bool has_own_token = false;
  for (size_t i = 0; i < position.top.size(); ++i) {
    const LogprobCandidate& candidate = position.top[i];
    if (candidate.id == position.id) {
      append_member(own, *position.logprob);
      has_own_token = true;
    } else if (bytes_are_taken(i)) {
      append_member(LogprobTokenId(candidate.id), candidate.logprob);
    } else {
      append_member(LogprobTokenText(candidate.bytes), candidate.logprob);
    }
  }
  if (!has_own_token) append_member(own, *position.logprob);
  out->push_back('}');
}

void AppendLegacyLogprobs(std::string* out, const std::vector<PositionLogprobs>& positions, bool as_ids) {
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
  append_list(",\"tokens\":[",
              [&](const PositionLogprobs& p) { AppendJsonString(out, TokenName(p.id, p.bytes, as_ids)); });
  append_list(",\"top_logprobs\":[", [&](const PositionLogprobs& p) { AppendTopLogprobs(out, p, as_ids); });
  out->push_back('}');
}

void AppendChoice(std::string* out, const AnswerChoice& choice, bool as_ids) {
  out->append("{\"index\":");
  AppendJsonInteger(out, choice.index);
  out->append(",\"text\":");
  AppendJsonString(out, choice.text);
  out->append(",\"logprobs\":");
  if (choice.logprobs.has_value()) {
    AppendLegacyLogprobs(out, *choice.logprobs, as_ids);
  } else {
    out->append("null");
  }
  out->append(",\"finish_reason\":");
  AppendJsonString(out, AnswerFinishName(choice.finish_reason));
  out->append(",\"stop_reason\":");
  AppendStopReason(out, choice.stop_reason);
  out->append(",\"prompt_logprobs\":");
  if (choice.prompt_logprobs.has_value()) {
    AppendPromptLogprobs(out, *choice.prompt_logprobs);
  } else {
    out->append("null");
  }
  out->append(",\"prompt_token_ids\":");
  AppendIdsOrNull(out, choice.prompt_token_ids.has_value() ? &*choice.prompt_token_ids : nullptr);
  out->append(",\"token_ids\":");
  AppendIdsOrNull(out, choice.token_ids.has_value() ? &*choice.token_ids : nullptr);
  out->push_back('}');
}

}  // namespace

void CompletionWriter::Begin(const AnswerHead& head) {
  AppendAnswerHead(&prefix_, head, kObject);
  prefix_.append(",\"choices\":[");
  AppendFingerprintMember(&fingerprint_member_, head);
}

std::string CompletionWriter::Body(const Answer& answer) {
  std::string out = prefix_;
  for (size_t i = 0; i < answer.choices.size(); ++i) {
    assert(i == 0 || answer.choices[i - 1].index < answer.choices[i].index);
    if (i > 0) out.push_back(',');
    AppendChoice(&out, answer.choices[i], tokens_as_ids_);
  }
  out.push_back(']');
  AppendAnswerEnd(&out, answer.usage, answer.kv.has_value() ? &*answer.kv : nullptr, fingerprint_member_,
                  answer.turn.has_value() ? &*answer.turn : nullptr);
  return out;
}

void CompletionWriter::AppendChunk(std::string* out, const AnswerDelta& delta) {
  out->append(kSseData);
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
    AppendLegacyLogprobs(out, *delta.logprobs, tokens_as_ids_);
  } else {
    out->append("null");
  }
  const bool last = delta.finish_reason.has_value();
  AppendChunkEnd(out, delta, last ? AnswerFinishName(*delta.finish_reason) : "", last ? fingerprint_member_ : "",
                 PromptPlace::kChoice);
}

void CompletionWriter::AppendUsage(std::string* out, const Usage& usage, const KvReport* kv) {
  out->append(kSseData).append(prefix_);
  out->push_back(']');
  AppendAnswerEnd(out, usage, kv, fingerprint_member_);
  out->append("\n\n");
}

}  // namespace hydrant
