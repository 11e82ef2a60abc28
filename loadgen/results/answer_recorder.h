// Turns the bytes of a response's body, as they come, into a RequestRecord. No clock and no socket: the times are given.
//
// Thread: any (an instance belongs to one request).
#ifndef HYDRANT_LOADGEN_RESULTS_ANSWER_RECORDER_H_
#define HYDRANT_LOADGEN_RESULTS_ANSWER_RECORDER_H_

#include <string>
#include <string_view>

#include "loadgen/client/sse_reader.h"
#include "loadgen/client/stream_event.h"
#include "loadgen/results/request_record.h"

namespace hydrant {

class AnswerRecorder {
 public:
  // `record` outlives this. `answer`, unless null, gets the text as JSON spells it, without quotes.
  AnswerRecorder(RequestRecord* record, std::string* answer) : record_(record), answer_(answer) {}

  void OnStatus(int status) { record_->status = status; }
  // Body bytes that were read at `now_s`.
  void OnBody(std::string_view bytes, double now_s);
  // The response is over, as HTTP says. Decides whether it is a success.
  void OnEnd(double now_s);
  // It is over for another reason; the first reason stays.
  void Fail(RequestError error, std::string_view text, double now_s);

  // Events with tokens so far.
  int64_t output_events() const { return output_events_; }

 private:
  void OnEvent(const StreamEvent& event, double now_s);

  RequestRecord* const record_;
  std::string* const answer_;
  SseReader events_;
  std::string refusal_;  // the beginning of the body of an answer that is not 200
  int64_t output_events_ = 0;
  bool done_ = false;  // [DONE] came
};

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_RESULTS_ANSWER_RECORDER_H_
