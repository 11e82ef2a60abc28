// EmbeddingWriter writes answers of POST /v1/embeddings, in OpenAI's shape.
//
// Thread: any; belongs to one request.
#ifndef HYDRANT_API_RESPONSE_EMBEDDING_WRITER_H_
#define HYDRANT_API_RESPONSE_EMBEDDING_WRITER_H_

#include <string>
#include <string_view>

#include "api/response/answer.h"

namespace hydrant {

class EmbeddingWriter : public AnswerWriter {
 public:
  // `as_base64`: encoding_format.
  explicit EmbeddingWriter(bool as_base64) : as_base64_(as_base64) {}

  std::string_view id_prefix() const override { return "embd-"; }
  void Begin(const AnswerHead& head) override { head_ = head; }
  std::string Body(const Answer& answer) override;
  // REQUIRES: never called. These requests have no `stream`.
  void AppendChunk(std::string* out, const AnswerDelta& delta) override;
  void AppendUsage(std::string* out, const Usage& usage, const KvReport* kv) override;

 private:
  const bool as_base64_;
  AnswerHead head_;
};

}  // namespace hydrant

#endif  // HYDRANT_API_RESPONSE_EMBEDDING_WRITER_H_
