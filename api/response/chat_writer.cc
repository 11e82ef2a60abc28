#include "api/response/chat_writer.h"

#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/response/sse.h"
#include "api/wire/json_writer.h"

namespace hydrant {
namespace {

using Kind = AnswerPiece::Kind;

void AppendToken(std::string* out, int32_t id, std::string_view bytes, float logprob, bool as_id) {
  AppendTokenLogprob(out, as_id ? absl::StrCat("token_id:", id) : LogprobTokenText(bytes), bytes, logprob);
}

void AppendLogprobs(std::string* out, const std::vector<PositionLogprobs>& positions, bool as_ids) {
  out->append("{\"content\":[");
  for (size_t i = 0; i < positions.size(); ++i) {
    const PositionLogprobs& position = positions[i];
    if (i > 0) out->push_back(',');
    AppendToken(out, position.id, position.bytes, position.logprob.value_or(0.0f), as_ids);
    out->append(",\"top_logprobs\":[");
    for (size_t j = 0; j < position.top.size(); ++j) {
      if (j > 0) out->push_back(',');
      AppendToken(out, position.top[j].id, position.top[j].bytes, position.top[j].logprob, as_ids);
      out->push_back('}');
    }
    out->append("]}");
  }
  out->append("],\"refusal\":null}");
}

void AppendLogprobsOrNull(std::string* out, const std::vector<PositionLogprobs>* positions, bool as_ids) {
  out->append(",\"logprobs\":");
  if (positions == nullptr) {
    out->append("null");
  } else {
    AppendLogprobs(out, *positions, as_ids);
  }
}

// "tool_calls":[…]
void AppendToolCalls(std::string* out, const std::vector<ToolCall>& calls) {
  out->append("\"tool_calls\":[");
  for (size_t i = 0; i < calls.size(); ++i) {
    out->append(i > 0 ? ",{\"id\":" : "{\"id\":");
    AppendJsonString(out, calls[i].id);
    out->append(",\"type\":\"function\",\"function\":{\"name\":");
    AppendJsonString(out, calls[i].name);
    out->append(",\"arguments\":");
    AppendJsonString(out, calls[i].arguments);
    out->append("}}");
  }
  out->push_back(']');
}

// The same of a stream: what has come of each call; nothing where there are no pieces of any. A call begins with its id and name.
void AppendCallPieces(std::string* out, const AnswerPieces& pieces) {
  std::string entries;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const bool begins = pieces[i].kind == Kind::kCall;
    if (!begins && pieces[i].kind != Kind::kArguments) continue;
    if (!entries.empty()) entries.push_back(',');
    absl::StrAppend(&entries, "{\"index\":", pieces[i].call, ",");
    if (begins) {
      entries.append("\"id\":");
      AppendJsonString(&entries, pieces[i].id);
      entries.append(",\"type\":\"function\",");
    }
    entries.append("\"function\":{");
    if (begins) {
      entries.append("\"name\":");
      AppendJsonString(&entries, pieces[i].text);
      entries.push_back(',');
    }
    const bool has_more = begins && i + 1 < pieces.size() && pieces[i + 1].kind == Kind::kArguments;
    if (has_more) ++i;
    entries.append("\"arguments\":");
    AppendJsonString(&entries, begins && !has_more ? std::string_view() : pieces[i].text);
    entries.append("}}");
  }
  if (!entries.empty()) out->append("\"tool_calls\":[").append(entries).append("]");
}

// "reasoning_content":…,"reasoning":…
void AppendReasoning(std::string* out, std::string_view reasoning) {
  out->append("\"reasoning_content\":");
  AppendJsonString(out, reasoning);
  out->append(",\"reasoning\":");
  AppendJsonString(out, reasoning);
}

// A model that called tools ended its turn with that.
std::string_view FinishName(FinishReason finish, bool has_calls) {
  const bool stopped = EndsByItself(finish) && finish != FinishReason::kLength;
  return has_calls && stopped ? "tool_calls" : AnswerFinishName(finish);
}

}  // namespace

void ChatWriter::Begin(const AnswerHead& head) {
  AppendAnswerHead(&body_prefix_, head, "chat.completion");
  AppendAnswerHead(&chunk_prefix_, head, "chat.completion.chunk");
  body_prefix_.append(",\"choices\":[");
  chunk_prefix_.append(",\"choices\":[");
  AppendFingerprintMember(&fingerprint_member_, head);
}

ToolCallParser ChatWriter::MakeParser(int32_t index) const {
  return ToolCallParser(options_.tool_calls, absl::StrCat(options_.call_ids, "/", index), options_.parallel_tool_calls,
                        options_.argument_types);
}

void ChatWriter::AppendChoice(std::string* out, const AnswerChoice& choice) const {
  ToolCallParser parser = MakeParser(choice.index);
  const WholeAnswer said = Joined(parser.Read(choice.text, /*last=*/true));
  out->append("{\"index\":");
  AppendJsonInteger(out, choice.index);
  out->append(",\"message\":{\"role\":\"assistant\",\"content\":");
  if (said.text.empty() && options_.echoed.empty() && !said.calls.empty()) {
    out->append("null");
  } else {
    AppendJsonString(out, options_.echoed + said.text);
  }
  if (options_.include_reasoning && !choice.reasoning.empty()) {
    out->push_back(',');
    AppendReasoning(out, choice.reasoning);
  }
  out->append(",\"refusal\":null");
  if (!said.calls.empty()) {
    out->push_back(',');
    AppendToolCalls(out, said.calls);
  }
  out->push_back('}');
  AppendLogprobsOrNull(out, choice.logprobs.has_value() ? &*choice.logprobs : nullptr, options_.tokens_as_ids);
  out->append(",\"finish_reason\":");
  AppendJsonString(out, FinishName(choice.finish_reason, said.has_whole_call() && !options_.named_tool));
  out->append(",\"stop_reason\":");
  AppendStopReason(out, choice.stop_reason);
  out->append(",\"token_ids\":");
  AppendIdsOrNull(out, choice.token_ids.has_value() ? &*choice.token_ids : nullptr);
  out->push_back('}');
}

namespace {

// All choices have this one's prompt.
void AppendPromptMembers(std::string* out, const AnswerChoice& choice) {
  out->append(",\"prompt_logprobs\":");
  if (choice.prompt_logprobs.has_value()) {
    AppendPromptLogprobs(out, *choice.prompt_logprobs);
  } else {
    out->append("null");
  }
  out->append(",\"prompt_token_ids\":");
  AppendIdsOrNull(out, choice.prompt_token_ids.has_value() ? &*choice.prompt_token_ids : nullptr);
}

}  // namespace

std::string ChatWriter::Body(const Answer& answer) {
  std::string out = body_prefix_;
  for (size_t i = 0; i < answer.choices.size(); ++i) {
    assert(i == 0 || answer.choices[i - 1].index < answer.choices[i].index);
    if (i > 0) out.push_back(',');
    AppendChoice(&out, answer.choices[i]);
  }
  out.push_back(']');
  AppendPromptMembers(&out, answer.choices.front());
  AppendAnswerEnd(&out, answer.usage, answer.kv.has_value() ? &*answer.kv : nullptr, fingerprint_member_,
                  answer.turn.has_value() ? &*answer.turn : nullptr);
  return out;
}

void ChatWriter::AppendRoleChunk(std::string* out, const AnswerDelta& delta) const {
  out->append(kSseData).append(chunk_prefix_).append("{\"index\":");
  AppendJsonInteger(out, delta.index);
  out->append(",\"delta\":{\"role\":\"assistant\",\"content\":");
  AppendJsonString(out, options_.echoed);
  out->push_back('}');
  AppendLogprobsOrNull(out, nullptr, options_.tokens_as_ids);
  AnswerDelta role;
  role.prompt_token_ids = delta.prompt_token_ids;
  role.usage = delta.usage;
  AppendChunkEnd(out, role, "", fingerprint_member_, PromptPlace::kAnswer);
}

void ChatWriter::AppendChunk(std::string* out, const AnswerDelta& delta) {
  if (delta.first) AppendRoleChunk(out, delta);
  auto found = parsers_.find(delta.index);
  if (found == parsers_.end()) found = parsers_.emplace(delta.index, MakeParser(delta.index)).first;
  ToolCallParser& parser = found->second;
  const bool last = delta.finish_reason.has_value();
  const AnswerPieces said = parser.Read(delta.text, last);
  std::string text;
  for (const AnswerPiece& piece : said) text += piece.kind == Kind::kText ? piece.text : std::string();
  std::string calls;
  AppendCallPieces(&calls, said);
  const std::string_view reasoning = options_.include_reasoning ? delta.reasoning : std::string_view();
  const bool tells = !reasoning.empty() || !text.empty() || !calls.empty() || last ||
                     (delta.logprobs != nullptr && !delta.logprobs->empty()) ||
                     (delta.token_ids != nullptr && !delta.token_ids->empty()) || delta.kv != nullptr;
  if (!tells) return;
  out->append(kSseData).append(chunk_prefix_).append("{\"index\":");
  AppendJsonInteger(out, delta.index);
  out->append(",\"delta\":{");
  if (!reasoning.empty()) AppendReasoning(out, reasoning);
  if (!text.empty() || (calls.empty() && reasoning.empty())) {
    if (!reasoning.empty()) out->push_back(',');
    out->append("\"content\":");
    AppendJsonString(out, text);
  }
  if (!calls.empty()) {
    if (out->back() != '{') out->push_back(',');
    out->append(calls);
  }
  out->push_back('}');
  AppendLogprobsOrNull(out, delta.logprobs, options_.tokens_as_ids);
  AnswerDelta rest = delta;
  rest.prompt_token_ids = nullptr;  // the role's chunk had them
  AppendChunkEnd(out, rest,
                 last ? FinishName(*delta.finish_reason, parser.has_whole_call() && !options_.named_tool) : "",
                 last ? fingerprint_member_ : "", PromptPlace::kAnswer);
}

void ChatWriter::AppendUsage(std::string* out, const Usage& usage, const KvReport* kv) {
  out->append(kSseData).append(chunk_prefix_);
  out->push_back(']');
  AppendAnswerEnd(out, usage, kv, fingerprint_member_);
  out->append("\n\n");
}

}  // namespace hydrant
