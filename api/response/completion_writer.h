// CompletionWriter writes answers of POST /v1/completions, in OpenAI's shape with vLLM's members.
//
// Thread: any; belongs to one request.
#ifndef HYDRANT_API_RESPONSE_COMPLETION_WRITER_H_
#define HYDRANT_API_RESPONSE_COMPLETION_WRITER_H_

#include <string>
#include <string_view>

#include "api/response/answer.h"

namespace hydrant {

class CompletionWriter : public AnswerWriter {
 public:
  // `tokens_as_ids`: return_tokens_as_token_ids.
  explicit CompletionWriter(bool tokens_as_ids = false) : tokens_as_ids_(tokens_as_ids) {}

  std::string_view id_prefix() const override { return "cmpl-"; }
  bool tells_aborts() const override { return true; }  // vLLM's finish_reason
  void Begin(const AnswerHead& head) override;
  void AppendChunk(std::string* out, const AnswerDelta& delta) override;
  void AppendUsage(std::string* out, const Usage& usage, const KvReport* kv) override;
  std::string Body(const Answer& answer) override;

 private:
  const bool tokens_as_ids_;
  // Formatted once.
  std::string prefix_;              // {"id":…,"choices":[
  std::string fingerprint_member_;  // ,"system_fingerprint":…
};

}  // namespace hydrant

#endif  // HYDRANT_API_RESPONSE_COMPLETION_WRITER_H_
