// HttpClient asks a server one thing after the other, over a connection that is kept.
//
// Thread: one at a time; waits for the network, each time for kWaitS at most. A name is looked up for as long as the system takes.
#ifndef HYDRANT_SERVER_SESSIONS_TOOLS_HTTP_CLIENT_H_
#define HYDRANT_SERVER_SESSIONS_TOOLS_HTTP_CLIENT_H_

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/sessions/tools/moving_session.h"

namespace hydrant {

class HttpClient {
 public:
  static constexpr int kWaitS = 120;  // a purge of a large log takes this long
  static constexpr size_t kHeadBytesMax = 64 << 10;
  static constexpr size_t kBodyBytesMax = size_t{1} << 30;

  struct Reply {
    int status = 0;
    std::vector<std::pair<std::string, std::string>> fields;  // names in lower case
    std::string body;
    // The value of the first field of this name, or "".
    std::string Field(std::string_view name) const;
  };

  // Where the body of an answer goes that is not to be in memory as a whole: of a 200 whose length is known, that is.
  struct Sink {
    std::function<void(uint64_t bytes)> begin;  // once, or more often: what came before was broken off
    std::function<absl::Status(std::string_view piece)> take;
  };
  // A body that is sent in parts: what it begins with, and what follows.
  struct Body {
    std::string_view begin;
    const KvSpool* rest = nullptr;
  };

  // "http://HOST[:PORT]", or "unix:PATH". Errors: INVALID_ARGUMENT.
  static absl::StatusOr<HttpClient> To(const std::string& url);
  const std::string& url() const { return url_; }
  bool is_unix() const { return !path_.empty(); }
  // `fields`: header lines, each with its CRLF. A connection that the server has closed meanwhile is opened again, and what was
  // asked is asked once more: it has to do no harm twice. Errors: UNAVAILABLE.
  absl::StatusOr<Reply> Ask(std::string_view method, const std::string& target, const std::string& fields,
                            std::string_view body) {
    return Ask(method, target, fields, Body{body, nullptr}, nullptr);
  }
  // `sink` null: the answer is in the reply. Errors: also what the sink says.
  absl::StatusOr<Reply> Ask(std::string_view method, const std::string& target, const std::string& fields,
                            const Body& body, const Sink* sink);

 private:
  using Stream = boost::beast::basic_stream<boost::asio::generic::stream_protocol>;

  HttpClient() = default;
  absl::Status Connect();
  boost::system::error_code ConnectTo(const Stream::endpoint_type& endpoint);
  absl::Status Send(std::string_view bytes);
  absl::StatusOr<Reply> ReadReply(bool has_body, const Sink* sink);
  absl::Status Fail(const boost::system::error_code& error) const;
  // Runs what was begun on the stream to its end, which its deadline brings at the latest.
  void Wait();
  void Close();

  std::string url_;
  std::string host_;  // as in the field Host
  std::string name_, port_;
  std::string path_;  // of a Unix socket
  std::unique_ptr<boost::asio::io_context> io_ = std::make_unique<boost::asio::io_context>();
  std::optional<Stream> stream_;        // while there is a connection
  boost::beast::flat_buffer received_;  // and not taken yet
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_TOOLS_HTTP_CLIENT_H_
