// RequestPlace is what a request holds of the server from its head on: its place among the open ones of its tenant, and the bytes that
// it makes the server hold. HTTP gives it back at the right moments and knows no more of it; server/frontend decides.
//
// Thread: the connection's strand.
#ifndef HYDRANT_SERVER_HTTP_REQUEST_PLACE_H_
#define HYDRANT_SERVER_HTTP_REQUEST_PLACE_H_

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <memory>
#include <optional>

#include "server/http/http_message.h"

namespace hydrant {

class HttpExchange;

// RequestPlace is what a request holds while it is under way. Its destructor gives back what was not given back before.
class RequestPlace {
 public:
  virtual ~RequestPlace() = default;

  // Somebody beyond this process has a say in it, too (Decide); else Decide is not called.
  virtual bool undecided() const { return false; }
  // Waits for that; returns the response that refuses the request, if so: then it holds nothing any more. Once, before anything else.
  virtual boost::asio::awaitable<std::optional<HttpResponse>> Decide(HttpExchange& exchange) = 0;
  // Room for a body of `bytes` in all, which nobody had said before (chunks); the response that refuses it else.
  virtual std::optional<HttpResponse> HoldBody(int64_t bytes) = 0;
  // The body was read, and its bytes are gone.
  virtual void ReleaseBody() = 0;
  // An answer of `bytes` waits for its client to take it.
  virtual void HoldAnswer(int64_t bytes) = 0;
  // Gives the place back: what is left of the answer is the kernel's.
  virtual void Close() = 0;
};

// Either, and never both: a request that may go on, or the response that refuses it.
struct Admitted {
  std::unique_ptr<RequestPlace> place;
  std::optional<HttpResponse> refusal;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_HTTP_REQUEST_PLACE_H_
