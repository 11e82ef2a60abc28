// Reads one HTTP/1.1 response with Beast's parser and hands on the body's bytes where they lie, whatever its framing
// (chunked, a length, until the end of the connection). No socket.
//
// Thread: any (an instance belongs to one response).
#ifndef HYDRANT_LOADGEN_CLIENT_RESPONSE_READER_H_
#define HYDRANT_LOADGEN_CLIENT_RESPONSE_READER_H_

#include <boost/beast/http/parser.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace hydrant {

// A Beast body that keeps nothing: its value is whom to call.
struct SinkBody {
  using value_type = std::function<void(std::string_view)>;

  class reader {
   public:
    template <bool kIsRequest, class Fields>
    reader(boost::beast::http::header<kIsRequest, Fields>&, value_type& sink) : sink_(sink) {}

    void init(const boost::optional<std::uint64_t>&, boost::system::error_code& error) { error = {}; }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, boost::system::error_code& error) {
      error = {};
      std::size_t bytes = 0;
      for (auto it = boost::asio::buffer_sequence_begin(buffers); it != boost::asio::buffer_sequence_end(buffers);
           ++it) {
        const boost::asio::const_buffer buffer = *it;
        sink_(std::string_view(static_cast<const char*>(buffer.data()), buffer.size()));
        bytes += buffer.size();
      }
      return bytes;
    }
    void finish(boost::system::error_code& error) { error = {}; }

   private:
    value_type& sink_;
  };
};

class ResponseReader {
 public:
  // `on_body` is called from within Feed. A body is at most `body_bytes_max` long.
  explicit ResponseReader(std::function<void(std::string_view)> on_body, uint64_t body_bytes_max = uint64_t{1} << 40);

  // Takes what it can off the front of `bytes` and returns how much; the rest is to be given again with more after it.
  // After an error() it takes nothing.
  size_t Feed(std::string_view bytes);
  // The connection was closed by the server.
  void FeedEnd();

  // Called once, before the first byte of the body.
  void set_on_status(std::function<void(int)> on_status) { on_status_ = std::move(on_status); }

  bool started() const { return parser_.got_some(); }
  bool done() const { return parser_.is_done(); }
  // The connection can carry another request. REQUIRES: done().
  bool keep_alive() const { return parser_.keep_alive(); }
  int status() const { return static_cast<int>(parser_.get().result_int()); }
  const std::string& error() const { return error_; }  // empty: none

 private:
  boost::beast::http::response_parser<SinkBody> parser_;
  std::function<void(int)> on_status_;
  std::string error_;
};

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_CLIENT_RESPONSE_READER_H_
