#include "loadgen/client/response_reader.h"

#include <utility>

namespace hydrant {
namespace {

namespace http = boost::beast::http;

}  // namespace

ResponseReader::ResponseReader(std::function<void(std::string_view)> on_body, uint64_t body_bytes_max) {
  parser_.get().body() = std::move(on_body);
  parser_.body_limit(body_bytes_max);
}

size_t ResponseReader::Feed(std::string_view bytes) {
  size_t taken = 0;
  while (error_.empty() && !parser_.is_done() && taken < bytes.size()) {
    const bool had_header = parser_.is_header_done();
    // Not eager before the header is done: its status has to be known when the body's first byte is handed on.
    parser_.eager(had_header);
    boost::system::error_code error;
    taken += parser_.put(boost::asio::const_buffer(bytes.data() + taken, bytes.size() - taken), error);
    if (!had_header && parser_.is_header_done() && on_status_) on_status_(status());
    if (error == http::error::need_more) break;
    if (error) error_ = error.message();
  }
  return taken;
}

void ResponseReader::FeedEnd() {
  if (!error_.empty() || parser_.is_done()) return;
  boost::system::error_code error;
  if (parser_.got_some()) {
    parser_.put_eof(error);
  } else {
    error = http::error::end_of_stream;
  }
  if (error) error_ = error.message();
}

}  // namespace hydrant
