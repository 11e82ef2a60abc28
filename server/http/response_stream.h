// ResponseStream is what a response needs of its connection: to write bytes, and to learn that the client is gone.
//
// Thread: the connection's strand (Waker's result aside: any).
#ifndef HYDRANT_SERVER_HTTP_RESPONSE_STREAM_H_
#define HYDRANT_SERVER_HTTP_RESPONSE_STREAM_H_

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <string_view>

namespace hydrant {

// A time that does not come.
inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

class ResponseStream {
 public:
  virtual ~ResponseStream() = default;

  // False: the client is gone, or did not take the bytes within stream_stall_s.
  virtual boost::asio::awaitable<bool> WriteAll(std::string_view data) = 0;
  // The connection ends with this response.
  virtual void CloseAfterResponse() = 0;
  // True if the connection stays open after this response. Called once, when the response's head is written.
  virtual bool KeepsAlive() = 0;

  // From here on notice a client that hangs up, also while nothing is written.
  virtual void WatchClient() = 0;
  virtual bool client_gone() const = 0;
  // Returns once somebody has called the waker since the last return, the client is gone, or it is `until_us` (monotonic).
  virtual boost::asio::awaitable<void> WaitForWake(int64_t until_us) = 0;
  // A function that any thread may call, also after the connection has ended.
  virtual std::function<void()> Waker() = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_HTTP_RESPONSE_STREAM_H_
