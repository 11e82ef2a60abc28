#include "loadgen/results/answer_recorder.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "api/wire/json_writer.h"

namespace hydrant {
namespace {

constexpr size_t kErrorTextMax = 300;
constexpr size_t kRefusalMax = 4096;

RequestError ErrorOfStatus(int status) {
  if (status == 429) return RequestError::kHttp429;
  if (status == 503) return RequestError::kHttp503;
  return RequestError::kHttpOther;
}

// Whether an answer that ends so is one that the server gave up, whatever came before.
bool IsFailure(std::string_view finish_reason) { return finish_reason == "abort" || finish_reason == "error"; }

}  // namespace

void AnswerRecorder::Fail(RequestError error, std::string_view text, double now_s) {
  if (record_->error == RequestError::kNone) {
    record_->error = error;
    // A server may send anything: what is kept has to fit a JSON string and one line of a terminal.
    record_->error_text = ToValidUtf8(text, kErrorTextMax);
    std::replace_if(record_->error_text.begin(), record_->error_text.end(), absl::ascii_iscntrl, ' ');
  }
  record_->end_s = now_s;
}

void AnswerRecorder::OnBody(std::string_view bytes, double now_s) {
  if (record_->status != 200) {
    refusal_.append(bytes.substr(0, kRefusalMax - std::min(kRefusalMax, refusal_.size())));
    return;
  }
  const bool fits = events_.Feed(bytes, [&](std::string_view data) { OnEvent(ReadStreamEvent(data), now_s); });
  if (!fits) Fail(RequestError::kProtocol, "an event is longer than 8 MiB", now_s);
}

void AnswerRecorder::OnEvent(const StreamEvent& event, double now_s) {
  if (event.prompt_tokens.has_value()) record_->prompt_tokens = *event.prompt_tokens;
  if (event.cached_tokens.has_value()) record_->cached_tokens = *event.cached_tokens;
  switch (event.kind) {
    case StreamEvent::Kind::kOutput:
      ++output_events_;
      if (record_->first_s == 0) {
        record_->first_s = now_s;
      } else {
        record_->gaps_s.push_back(static_cast<float>(now_s - record_->last_s));
      }
      record_->last_s = now_s;
      if (!record_->counted_by_server) ++record_->output_tokens;
      if (answer_ != nullptr) answer_->append(event.text);
      if (!event.finish_reason.empty()) record_->finish_reason.assign(event.finish_reason);
      if (IsFailure(event.finish_reason)) {
        Fail(RequestError::kStream, absl::StrCat("the server ended it: ", std::string(event.finish_reason)), now_s);
      }
      break;
    case StreamEvent::Kind::kError:
      Fail(RequestError::kStream, event.error, now_s);
      break;
    case StreamEvent::Kind::kMalformed:
      Fail(RequestError::kProtocol, "an event is not a JSON object", now_s);
      break;
    case StreamEvent::Kind::kDone:
      done_ = true;
      break;
    case StreamEvent::Kind::kRole:
    case StreamEvent::Kind::kNoChoices:
      break;
  }
  if (event.completion_tokens.has_value()) {
    record_->output_tokens = *event.completion_tokens;
    record_->counted_by_server = true;
  }
}

void AnswerRecorder::OnEnd(double now_s) {
  if (record_->status != 200) {
    const StreamEvent refusal = ReadStreamEvent(refusal_);
    Fail(ErrorOfStatus(record_->status),
         absl::StrCat("HTTP ", record_->status, ": ",
                      std::string(refusal.error.empty() ? std::string_view(refusal_) : refusal.error)),
         now_s);
  } else if (record_->first_s == 0) {
    Fail(RequestError::kProtocol, "the stream ended without a token", now_s);
  } else if (!done_) {
    Fail(RequestError::kProtocol, "the stream ended without [DONE]", now_s);
  } else if (record_->finish_reason.empty()) {
    // A gateway that lost its server may write the [DONE] itself.
    Fail(RequestError::kProtocol, "the stream ended without a finish_reason", now_s);
  }
  record_->end_s = now_s;
}

}  // namespace hydrant
