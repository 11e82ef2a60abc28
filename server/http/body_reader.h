// BodyReader takes the bytes of one request's body off what its connection has received, and knows when more are due.
//
// Thread: the connection's strand.
#ifndef HYDRANT_SERVER_HTTP_BODY_READER_H_
#define HYDRANT_SERVER_HTTP_BODY_READER_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "server/http/http_head.h"
#include "server/http/http_message.h"
#include "server/process/limits.h"

namespace hydrant {

class BodyReader {
 public:
  BodyReader(const HttpHead& head, const Limits& limits, std::string* body)
      : head_(head), limits_(limits), decoder_(limits), body_(*body) {}

  // kRejected: reject() says why.
  HttpProgress Take(std::string* input) {
    size_t used = 0;
    HttpProgress progress = HttpProgress::kNeedMore;
    if (head_.framing == BodyFraming::kChunked) {
      progress = decoder_.Feed(*input, &used, &body_);
    } else {
      used = std::min<uint64_t>(head_.content_length - received_, input->size());
      body_.append(*input, 0, used);
      if (received_ + used == head_.content_length) progress = HttpProgress::kDone;
    }
    received_ += used;
    input->erase(0, used);
    return progress;
  }
  const ApiError& reject() const { return decoder_.reject(); }
  // Seconds from its beginning until it must have brought more than it has: in all, and by the rate it comes at.
  double due_s() const {
    return std::min(limits_.body_timeout_s,
                    limits_.body_grace_s + static_cast<double>(received_) / limits_.body_bytes_per_s_min);
  }

 private:
  const HttpHead& head_;
  const Limits& limits_;
  ChunkedDecoder decoder_;
  std::string& body_;
  uint64_t received_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_HTTP_BODY_READER_H_
