// ResponsesWriter writes answers of POST /v1/responses, in the shape of OpenAI's Responses: an object of which every member is always
// there, or events.
//
//   response.created, response.in_progress, the items' events (response_output.h), and at last response.completed, .incomplete or
//   .failed; each is numbered, and the first two and the last have the object
//
// Thread: any; belongs to one request, which has one choice.
#ifndef HYDRANT_API_RESPONSE_RESPONSES_WRITER_H_
#define HYDRANT_API_RESPONSE_RESPONSES_WRITER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "api/response/answer.h"
#include "api/response/response_output.h"

namespace hydrant {

struct ResponsesWriterOptions : ResponseOutputOptions {
  // Members of the object, `"name":value` with commas between: ResponsesRequest's, and where it stands in a chain.
  std::string head;
  std::string echo;
  std::string chain;
  std::string items;  // the request's, as a JSON array: of the note
};

class ResponsesWriter : public AnswerWriter {
 public:
  explicit ResponsesWriter(ResponsesWriterOptions options) : options_(std::move(options)), output_(options_) {}

  std::string_view id_prefix() const override { return "resp_"; }
  void Begin(const AnswerHead& head) override { head_ = head; }
  void AppendChunk(std::string* out, const AnswerDelta& delta) override;
  // The last event: it has the usage, so every stream ends with it.
  void AppendUsage(std::string* out, const Usage& usage, const KvReport* kv) override;
  void AppendEnd(std::string* out) override;
  void AppendError(std::string* out, const ApiError& error) override;
  std::string Body(const Answer& answer) override;
  // The object without its head, then in a line of its own the request's items.
  AnswerNote Note(const Answer& answer) const override;

 private:
  // What the object says of an answer's end, or that there is none yet.
  struct State {
    std::string_view status = "in_progress";
    const std::string* items = nullptr;  // null: none
    const Usage* usage = nullptr;        // null: null
    const ApiError* error = nullptr;     // null: null
    const KvReport* kv = nullptr;
    const TurnReport* turn = nullptr;
    bool head = true;  // it has that
  };
  // `says_all`: AnswerNote's.
  std::string Whole(const Answer& answer, bool head, bool* says_all) const;
  void AppendObject(std::string* out, const State& state) const;
  void AppendObjectEvent(std::string* out, std::string_view status, const State& state);

  const ResponsesWriterOptions options_;
  AnswerHead head_;
  ResponseOutput output_;
  ResponseEvents events_;
  FinishReason finish_ = FinishReason::kStop;
  std::optional<TurnReport> turn_;
};

}  // namespace hydrant

#endif  // HYDRANT_API_RESPONSE_RESPONSES_WRITER_H_
