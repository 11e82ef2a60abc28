#include "api/response/responses_writer.h"

#include <cassert>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "api/wire/json_writer.h"

namespace hydrant {
namespace {

std::string_view StatusOf(FinishReason finish) { return finish == FinishReason::kLength ? "incomplete" : "completed"; }

void AppendResponseUsage(std::string* out, const Usage& usage) {
  absl::StrAppend(out, "{\"input_tokens\":", usage.prompt_tokens,
                  ",\"input_tokens_details\":{\"cached_tokens\":", usage.cached_tokens,
                  ",\"cache_write_tokens\":0},\"output_tokens\":", usage.completion_tokens,
                  ",\"output_tokens_details\":{\"reasoning_tokens\":", usage.reasoning_tokens.value_or(0),
                  "},\"total_tokens\":", usage.prompt_tokens + usage.completion_tokens, "}");
}

// The codes that clients know, and the one by which Codex knows that it has to shorten the conversation.
std::string_view FailureCode(const ApiError& error) {
  if (error.code == "context_length_exceeded") return "context_length_exceeded";
  if (error.status == 429) return "rate_limit_exceeded";
  return error.status < 500 ? "invalid_prompt" : "server_error";
}

}  // namespace

void ResponsesWriter::AppendObject(std::string* out, const State& state) const {
  out->append("{\"id\":");
  AppendJsonString(out, head_.id);
  out->append(",\"object\":\"response\",\"created_at\":");
  AppendJsonInteger(out, head_.created);
  out->append(",\"completed_at\":");
  AppendJsonIntegerOrNull(out, state.status == "completed" ? static_cast<int64_t>(std::time(nullptr)) : 0);
  out->append(",\"status\":\"").append(state.status).append("\",\"incomplete_details\":");
  out->append(state.status == "incomplete" ? "{\"reason\":\"max_output_tokens\"}" : "null");
  out->append(",\"model\":");
  AppendJsonString(out, head_.model);
  out->append(",\"output\":[");
  if (state.items != nullptr) out->append(*state.items);
  out->append("],\"error\":");
  if (state.error != nullptr) {
    out->append("{\"code\":\"").append(FailureCode(*state.error)).append("\",\"message\":");
    AppendJsonString(out, state.error->message);
    out->push_back('}');
  } else {
    out->append("null");
  }
  if (state.head) out->append(",").append(options_.head);
  out->append(",").append(options_.chain).append(",").append(options_.echo);
  out->append(",\"usage\":");
  if (state.usage != nullptr) {
    AppendResponseUsage(out, *state.usage);
  } else {
    out->append("null");
  }
  if (state.kv != nullptr) AppendKvMember(out, *state.kv);
  if (state.turn != nullptr) AppendTurnMember(out, *state.turn);
  out->push_back('}');
}

void ResponsesWriter::AppendObjectEvent(std::string* out, std::string_view status, const State& state) {
  events_.Begin(out, absl::StrCat("response.", std::string(status)));
  out->append(",\"response\":");
  AppendObject(out, state);
  ResponseEvents::End(out);
}

std::string ResponsesWriter::Body(const Answer& answer) {
  bool says_all = true;
  return Whole(answer, /*head=*/true, &says_all);
}

AnswerNote ResponsesWriter::Note(const Answer& answer) const {
  AnswerNote note;
  note.text = Whole(answer, /*head=*/false, &note.says_all).append("\n").append(options_.items);
  return note;
}

std::string ResponsesWriter::Whole(const Answer& answer, bool head, bool* says_all) const {
  assert(answer.choices.size() == 1);
  const AnswerChoice& choice = answer.choices.front();
  const std::string_view status = StatusOf(choice.finish_reason);
  ResponseOutput output(options_);
  output.PushReasoning(choice.reasoning, nullptr, nullptr);
  if (choice.logprobs.has_value()) output.AddLogprobs(*choice.logprobs, choice.text_begin);
  output.Push(choice.text, /*last=*/true, status == "incomplete", nullptr, nullptr);
  *says_all = output.says_all();
  State state;
  state.status = status;
  state.items = &output.items();
  state.usage = &answer.usage;
  state.kv = answer.kv.has_value() ? &*answer.kv : nullptr;
  state.turn = answer.turn.has_value() ? &*answer.turn : nullptr;
  state.head = head;
  std::string out;
  AppendObject(&out, state);
  return out;
}

void ResponsesWriter::AppendChunk(std::string* out, const AnswerDelta& delta) {
  if (delta.first) {
    AppendObjectEvent(out, "created", State());
    AppendObjectEvent(out, "in_progress", State());
  }
  const bool last = delta.finish_reason.has_value();
  if (last) finish_ = *delta.finish_reason;
  if (delta.turn != nullptr) turn_ = *delta.turn;
  output_.PushReasoning(delta.reasoning, &events_, out);
  if (delta.logprobs != nullptr) output_.AddLogprobs(*delta.logprobs, delta.text_begin);
  output_.Push(delta.text, last, last && StatusOf(finish_) == "incomplete", &events_, out);
}

void ResponsesWriter::AppendUsage(std::string* out, const Usage& usage, const KvReport* kv) {
  State state;
  state.status = StatusOf(finish_);
  state.items = &output_.items();
  state.usage = &usage;
  state.kv = kv;
  state.turn = turn_.has_value() ? &*turn_ : nullptr;
  AppendObjectEvent(out, state.status, state);
}

void ResponsesWriter::AppendEnd(std::string*) {}

void ResponsesWriter::AppendError(std::string* out, const ApiError& error) {
  State state;
  state.status = "failed";
  state.items = &output_.items();
  state.error = &error;
  AppendObjectEvent(out, "failed", state);
}

}  // namespace hydrant
