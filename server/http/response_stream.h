// ResponseStream is what a response needs of its connection: to write bytes, and to learn that the client is gone.
//
// Thread: the connection's strand (Waker's result aside: any).
#ifndef HYDRANT_SERVER_HTTP_RESPONSE_STREAM_H_
#define HYDRANT_SERVER_HTTP_RESPONSE_STREAM_H_

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "server/http/http_message.h"

namespace hydrant {

// A time that does not come.
inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// What became of a body's next piece: it came; there is no more; the client is gone; it sends too slowly.
enum class BodyProgress : uint8_t { kPiece, kOver, kGone, kSlow };
// A piece has so many at most.
inline constexpr size_t kBodyPieceBytes = 1 << 20;

// What it means that a client has ended its side of the connection, which is all that is seen of one that has closed it: it has left,
// so that nothing is computed for nobody; or, where there is nothing to save, it may be listening, for so long (Limits::half_closed_s).
enum class HalfClosed : uint8_t { kLeft, kListens };

class ResponseStream {
 public:
  virtual ~ResponseStream() = default;

  // False: the client is gone, or did not take the bytes within stream_stall_s.
  virtual boost::asio::awaitable<bool> WriteAll(std::string_view data) = 0;
  // The next piece of the body of the request that `head` begins, for a route that reads it by itself (HttpRoute::streams_body), of a
  // known length. What it takes the caller to come back counts for no deadline.
  virtual boost::asio::awaitable<BodyProgress> ReadBodyPiece(const HttpHead& head, std::string* piece) = 0;
  // The connection ends with this response.
  virtual void CloseAfterResponse() = 0;
  // True if the connection stays open after this response. Called once, when the response's head is written.
  virtual bool KeepsAlive() = 0;

  // From here on, for this request, notice a client that hangs up, also while nothing is written.
  virtual void WatchClient(HalfClosed means) = 0;
  virtual bool client_gone() const = 0;
  // Returns once somebody has called the waker since the last return, the client is gone, or it is `until_us` (monotonic).
  virtual boost::asio::awaitable<void> WaitForWake(int64_t until_us) = 0;
  // A function that any thread may call, also after the connection has ended.
  virtual std::function<void()> Waker() = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_HTTP_RESPONSE_STREAM_H_
