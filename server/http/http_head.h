// Reads an HTTP/1 request head and a chunked body out of bytes received so far, strictly: whatever two readers could
// understand differently is refused (request smuggling lives on such differences). Beast parses the tokens; everything
// it lets through that we do not want is checked here.
//
// Thread: any (pure). A refused request is answered, then its connection is closed.
//
// Refused: folded or nameless fields, bare CR or LF, control bytes; no Host or several on HTTP/1.1, several
// Authorization, Content-Length, Transfer-Encoding, Expect, Content-Type or Content-Encoding fields; Content-Length
// beside Transfer-Encoding or not purely digits; Transfer-Encoding other than `chunked`, or on HTTP/1.0.
#ifndef HYDRANT_SERVER_HTTP_HTTP_HEAD_H_
#define HYDRANT_SERVER_HTTP_HTTP_HEAD_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "api/wire/api_error.h"
#include "server/http/http_message.h"
#include "server/process/limits.h"

namespace hydrant {

enum class HttpProgress : uint8_t { kNeedMore, kDone, kRejected };

class HttpHeadReader {
 public:
  explicit HttpHeadReader(const Limits& limits) : limits_(limits) {}  // which must outlive it
  explicit HttpHeadReader(Limits&&) = delete;

  // `input` is everything received for this request so far: each call sees the earlier bytes again, and more.
  // kDone: head() is complete and took consumed() bytes. kRejected: reject() says why; as soon as the bytes allow, so
  // that a peer that speaks something else is answered at once.
  HttpProgress Read(std::string_view input);

  HttpHead& head() { return head_; }
  size_t consumed() const { return consumed_; }
  const ApiError& reject() const { return reject_; }

 private:
  HttpProgress Reject(ApiError error);
  HttpProgress ScanRequestLine(std::string_view input);
  HttpProgress ParseBlock(std::string_view block);
  HttpProgress CheckFields();

  const Limits& limits_;
  HttpHead head_;
  ApiError reject_;
  size_t skipped_ = 0;  // one empty line before the request line is allowed (RFC 9112, 2.2)
  size_t scanned_ = 0;  // bytes known to hold no end of the block
  bool line_checked_ = false;
  size_t consumed_ = 0;
};

// The path of a request of which `input` came and nothing is known to be right; empty: it has none, or not yet.
std::string_view RequestedPath(std::string_view input);

// A chunked body, decoded as it arrives. Extensions and trailers are read over; both are bounded.
class ChunkedDecoder {
 public:
  explicit ChunkedDecoder(const Limits& limits) : limits_(limits) {}  // which must outlive it
  explicit ChunkedDecoder(Limits&&) = delete;

  // Takes bytes from `input`, says how many in `consumed`, appends what they carry to `body`.
  HttpProgress Feed(std::string_view input, size_t* consumed, std::string* body);
  const ApiError& reject() const { return reject_; }

 private:
  enum class State : uint8_t {
    kSize,
    kExtension,
    kSizeLf,
    kData,
    kDataCr,
    kDataLf,
    kTrailerStart,
    kTrailer,
    kTrailerLf,
    kEndLf
  };

  HttpProgress Reject(ApiError error);
  HttpProgress Step(char byte);

  const Limits& limits_;
  State state_ = State::kSize;
  int32_t size_digits_ = 0;
  uint64_t left_ = 0;       // bytes of the current chunk still to come
  int32_t line_bytes_ = 0;  // of the extension being read over
  int64_t trailer_bytes_ = 0;
  int64_t wire_bytes_ = 0;  // framing included: a million tiny chunks are bounded like one large one
  ApiError reject_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_HTTP_HTTP_HEAD_H_
