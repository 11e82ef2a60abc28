#include "server/http/http_head.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <charconv>
#include <optional>

#include "server/process/ascii_text.h"

namespace hydrant {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

// Longer than any registered method; longer tokens are noise.
constexpr size_t kMethodBytesMax = 32;
// Nobody needs chunk extensions; this only leaves room for signatures some proxies add.
constexpr int32_t kChunkExtensionBytesMax = 256;

bool IsToken(char c) {
  return IsLetter(c) || IsDigit(c) || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

// Collects what Beast's tokenizer finds. The body never reaches it.
class HeadParser final : public http::basic_parser<true> {
 public:
  explicit HeadParser(HttpHead* head) : head_(head) {
    skip(true);
    header_limit(64 << 10);  // HttpHeadReader has bounded the block already
    body_limit(boost::none);
  }

  std::string target;

 private:
  void on_request_impl(http::verb, beast::string_view method, beast::string_view target_in, int version,
                       beast::error_code&) override {
    head_->method.assign(method.data(), method.size());
    target.assign(target_in.data(), target_in.size());
    head_->version_minor = version - 10;
  }
  void on_field_impl(http::field, beast::string_view name, beast::string_view value, beast::error_code&) override {
    head_->fields.push_back(
        {LowerCase(std::string_view(name.data(), name.size())), std::string(value.data(), value.size())});
  }
  void on_response_impl(int, beast::string_view, int, beast::error_code&) override {}
  void on_header_impl(beast::error_code&) override {}
  void on_body_init_impl(boost::optional<std::uint64_t> const&, beast::error_code&) override {}
  std::size_t on_body_impl(beast::string_view body, beast::error_code&) override { return body.size(); }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, beast::error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view body, beast::error_code&) override {
    return body.size();
  }
  void on_finish_impl(beast::error_code&) override {}

  HttpHead* head_;
};

// Splits a request target into the path, the query and, for the absolute form, the authority that replaces Host.
bool SplitTarget(std::string_view method, std::string_view target, std::string* path, std::string* query,
                 std::optional<std::string>* authority) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!StartsWithIgnoreCase(target, scheme)) continue;
    target.remove_prefix(scheme.size());
    const size_t slash = std::min(target.find_first_of("/?"), target.size());
    *authority = std::string(target.substr(0, slash));
    if (slash == 0) return false;
    target.remove_prefix(slash);
    if (target.empty() || target.front() != '/') {
      *path = "/";
      return true;
    }
    break;
  }
  if (target.empty() || target.find('#') != std::string_view::npos) return false;
  // Other forms belong to one method each (RFC 9112, 3.2); they are kept as paths that no route has.
  const bool form_ok = target.front() == '/' || method == "CONNECT" || (target == "*" && method == "OPTIONS");
  if (!form_ok) return false;
  const size_t end = std::min(target.find('?'), target.size());
  *path = std::string(target.substr(0, end));
  *query = std::string(target.substr(std::min(end + 1, target.size())));
  return true;
}

}  // namespace

HttpProgress HttpHeadReader::Reject(ApiError error) {
  reject_ = std::move(error);
  return HttpProgress::kRejected;
}

HttpProgress HttpHeadReader::Read(std::string_view input) {
  if (scanned_ == 0 && skipped_ == 0 && input.starts_with("\r\n")) skipped_ = 2;
  if (input == "\r") return HttpProgress::kNeedMore;
  input.remove_prefix(skipped_);
  if (!line_checked_) {
    const HttpProgress progress = ScanRequestLine(input);
    if (progress == HttpProgress::kRejected) return progress;
  }
  const auto limit = static_cast<size_t>(limits_.header_bytes_max);
  while (true) {
    const size_t lf = input.find('\n', scanned_);
    if (lf == std::string_view::npos || lf >= limit) {
      scanned_ = std::min(input.size(), limit);
      if (input.size() < limit) return HttpProgress::kNeedMore;
      if (!line_checked_) return Reject(UriTooLong());
      return Reject(HeadersTooLarge());
    }
    if (lf == 0 || input[lf - 1] != '\r') return Reject(MalformedHttp("A header line does not end with CRLF."));
    if (lf >= 3 && input[lf - 2] == '\n') {
      consumed_ = skipped_ + lf + 1;
      return ParseBlock(input.substr(0, lf + 1));
    }
    if (lf + 1 < input.size() && (input[lf + 1] == ' ' || input[lf + 1] == '\t')) {
      return Reject(MalformedHttp("Folded header lines are not allowed."));
    }
    // The byte after this line may not be here yet; look at the line again when it is.
    if (lf + 1 == input.size()) {
      scanned_ = lf;
      return input.size() < limit ? HttpProgress::kNeedMore : Reject(HeadersTooLarge());
    }
    scanned_ = lf + 1;
  }
}

HttpProgress HttpHeadReader::ScanRequestLine(std::string_view input) {
  // What is beyond the limit may not be here yet, and counts for nothing when it is.
  input = input.substr(0, static_cast<size_t>(limits_.header_bytes_max));
  const size_t eol = input.find('\n');
  const std::string_view line = input.substr(0, eol);
  const size_t method_end = std::min(line.find(' '), line.size());
  const bool method_ok = method_end <= kMethodBytesMax && (method_end > 0 || line.empty()) &&
                         std::all_of(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(method_end), IsToken);
  if (!method_ok) return Reject(MalformedHttp("This is not an HTTP/1.1 request."));
  if (method_end == line.size()) {
    return eol == std::string_view::npos ? HttpProgress::kNeedMore
                                         : Reject(MalformedHttp("This is not an HTTP/1.1 request."));
  }
  const std::string_view rest = line.substr(method_end + 1);
  const size_t target_end = std::min(rest.find(' '), rest.size());
  if (target_end > static_cast<size_t>(limits_.uri_bytes_max)) return Reject(UriTooLong());
  std::string_view target = rest.substr(0, target_end);
  // The line may end here (HTTP/0.9, refused below).
  if (target_end == rest.size() && target.ends_with('\r')) target.remove_suffix(1);
  for (const char c : target) {
    if (c < 0x21 || c > 0x7e) return Reject(MalformedHttp("The request target has a byte that is not allowed in it."));
  }
  if (eol == std::string_view::npos) return HttpProgress::kNeedMore;
  if (!line.ends_with(" HTTP/1.1\r") && !line.ends_with(" HTTP/1.0\r")) {
    return Reject(MalformedHttp("Only HTTP/1.0 and HTTP/1.1 are supported."));
  }
  line_checked_ = true;
  return HttpProgress::kDone;
}

HttpProgress HttpHeadReader::ParseBlock(std::string_view block) {
  // The request line and the empty line are not fields.
  const auto fields = std::count(block.begin(), block.end(), '\n') - 2;
  if (fields > limits_.header_fields_max) return Reject(HeadersTooLarge());
  HeadParser parser(&head_);
  beast::error_code error;
  const size_t used = parser.put(boost::asio::const_buffer(block.data(), block.size()), error);
  if (error || used != block.size() || !parser.is_header_done()) {
    if (error == http::error::bad_method) return Reject(MalformedHttp("This is not an HTTP/1.1 request."));
    if (error == http::error::bad_content_length || error == http::error::multiple_content_length) {
      return Reject(MalformedHttp("Content-Length must be given once, as a decimal number."));
    }
    if (error == http::error::bad_transfer_encoding) {
      return Reject(MalformedHttp("Transfer-Encoding may be given once, and not beside Content-Length."));
    }
    return Reject(MalformedHttp("The request header is malformed."));
  }
  head_.keep_alive = parser.keep_alive();
  std::optional<std::string> authority;
  if (!SplitTarget(head_.method, parser.target, &head_.path, &head_.query, &authority)) {
    return Reject(MalformedHttp("The request target is malformed."));
  }
  const HttpProgress progress = CheckFields();
  if (progress == HttpProgress::kDone && authority.has_value()) {
    for (HttpField& field : head_.fields) {
      if (field.name == "host") field.value = *authority;
    }
  }
  return progress;
}

HttpProgress HttpHeadReader::CheckFields() {
  int hosts = 0;
  const HttpField* length = nullptr;
  const HttpField* transfer = nullptr;
  for (size_t i = 0; i < head_.fields.size(); ++i) {
    const HttpField& field = head_.fields[i];
    if (field.name.empty()) return Reject(MalformedHttp("The request header is malformed."));
    for (const std::string_view single : {"host", "authorization", "x-api-key", "content-length", "transfer-encoding",
                                          "content-type", "content-encoding", "expect", "origin", "x-request-id"}) {
      if (field.name != single) continue;
      for (size_t j = 0; j < i; ++j) {
        if (head_.fields[j].name == single)
          return Reject(MalformedHttp("A header field that may occur once occurs twice."));
      }
    }
    if (field.name == "host") ++hosts;
    if (field.name == "content-length") length = &field;
    if (field.name == "transfer-encoding") transfer = &field;
    if (field.name == "expect") head_.expects_continue = EqualsIgnoreCase(field.value, "100-continue");
  }
  if (hosts == 0 && head_.version_minor >= 1) return Reject(MalformedHttp("HTTP/1.1 requests need one Host field."));
  if (transfer != nullptr) {
    if (length != nullptr) return Reject(MalformedHttp("Content-Length and Transfer-Encoding exclude each other."));
    if (head_.version_minor == 0) return Reject(MalformedHttp("HTTP/1.0 has no Transfer-Encoding."));
    if (!EqualsIgnoreCase(transfer->value, "chunked")) {
      return Reject(NotImplemented("The only supported Transfer-Encoding is chunked."));
    }
    head_.framing = BodyFraming::kChunked;
  }
  if (length != nullptr) {
    const std::string& digits = length->value;
    const char* end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, head_.content_length);
    if (digits.empty() || error != std::errc() || stop != end) {
      return Reject(MalformedHttp("Content-Length must be given once, as a decimal number."));
    }
    head_.framing = head_.content_length > 0 ? BodyFraming::kLength : BodyFraming::kNone;
  }
  return HttpProgress::kDone;
}

std::string_view RequestedPath(std::string_view input) {
  const std::string_view line = input.substr(std::min(input.find_first_not_of("\r\n"), input.size()));
  std::string_view target = line.substr(std::min(line.find(' '), line.size()));
  target = target.substr(std::min<size_t>(1, target.size()));
  target = target.substr(0, target.find_first_of(" ?\r\n"));
  const size_t authority = target.find("://");
  if (authority == std::string_view::npos) return target;
  target.remove_prefix(authority + 3);
  return target.substr(std::min(target.find('/'), target.size()));
}

HttpProgress ChunkedDecoder::Reject(ApiError error) {
  reject_ = std::move(error);
  return HttpProgress::kRejected;
}

HttpProgress ChunkedDecoder::Feed(std::string_view input, size_t* consumed, std::string* body) {
  size_t at = 0;
  while (at < input.size()) {
    const size_t take = state_ == State::kData ? std::min<uint64_t>(left_, input.size() - at) : 1;
    // A chunk's framing costs at least 5 bytes; counting them bounds the work per body byte. Counted before it is used, so
    // that a body too long is refused at the same byte however it is cut.
    wire_bytes_ += static_cast<int64_t>(take);
    if (wire_bytes_ > limits_.body_bytes_max)
      return Reject(PayloadTooLarge(static_cast<uint64_t>(limits_.body_bytes_max)));
    if (state_ == State::kData) {
      body->append(input.substr(at, take));
      at += take;
      left_ -= take;
      if (left_ == 0) state_ = State::kDataCr;
      continue;
    }
    const HttpProgress progress = Step(input[at++]);
    if (progress == HttpProgress::kRejected) return progress;
    if (progress == HttpProgress::kDone) {
      *consumed = at;
      return progress;
    }
    if (state_ == State::kData &&
        static_cast<int64_t>(body->size()) + static_cast<int64_t>(left_) > limits_.body_bytes_max) {
      return Reject(PayloadTooLarge(static_cast<uint64_t>(limits_.body_bytes_max)));
    }
  }
  *consumed = at;
  return HttpProgress::kNeedMore;
}

HttpProgress ChunkedDecoder::Step(char byte) {
  static constexpr char kMalformed[] = "The chunked body is malformed.";
  switch (state_) {
    case State::kSize: {
      const char c = LowerCase(byte);
      if (IsDigit(c) || (c >= 'a' && c <= 'f')) {
        // 15 digits can neither overflow nor be meant seriously.
        if (++size_digits_ > 15) return Reject(PayloadTooLarge(static_cast<uint64_t>(limits_.body_bytes_max)));
        left_ = left_ * 16 + static_cast<uint64_t>(IsDigit(c) ? c - '0' : c - 'a' + 10);
        return HttpProgress::kNeedMore;
      }
      if (size_digits_ == 0) return Reject(MalformedHttp(kMalformed));
      // A size beyond the limit is refused before its line is complete: left_ stays exact in a signed 64-bit sum.
      if (left_ > static_cast<uint64_t>(limits_.body_bytes_max))
        return Reject(PayloadTooLarge(static_cast<uint64_t>(limits_.body_bytes_max)));
      line_bytes_ = 0;
      if (byte == '\r') {
        state_ = State::kSizeLf;
      } else if (byte == ';' || byte == ' ' || byte == '\t') {
        state_ = State::kExtension;
      } else {
        return Reject(MalformedHttp(kMalformed));
      }
      return HttpProgress::kNeedMore;
    }
    case State::kExtension:
      if (byte == '\r') {
        state_ = State::kSizeLf;
      } else if (byte == '\n' || ++line_bytes_ > kChunkExtensionBytesMax) {
        return Reject(MalformedHttp(kMalformed));
      }
      return HttpProgress::kNeedMore;
    case State::kSizeLf:
      if (byte != '\n') return Reject(MalformedHttp(kMalformed));
      size_digits_ = 0;
      state_ = left_ > 0 ? State::kData : State::kTrailerStart;
      return HttpProgress::kNeedMore;
    case State::kData:
      break;
    case State::kDataCr:
      if (byte != '\r') return Reject(MalformedHttp(kMalformed));
      state_ = State::kDataLf;
      return HttpProgress::kNeedMore;
    case State::kDataLf:
      if (byte != '\n') return Reject(MalformedHttp(kMalformed));
      state_ = State::kSize;
      return HttpProgress::kNeedMore;
    case State::kTrailerStart:
      if (byte == '\r') {
        state_ = State::kEndLf;
        return HttpProgress::kNeedMore;
      }
      state_ = State::kTrailer;
      [[fallthrough]];
    case State::kTrailer:
      if (++trailer_bytes_ > limits_.header_bytes_max) return Reject(HeadersTooLarge());
      if (byte == '\n') return Reject(MalformedHttp(kMalformed));
      if (byte == '\r') state_ = State::kTrailerLf;
      return HttpProgress::kNeedMore;
    case State::kTrailerLf:
      if (byte != '\n') return Reject(MalformedHttp(kMalformed));
      state_ = State::kTrailerStart;
      return HttpProgress::kNeedMore;
    case State::kEndLf:
      return byte == '\n' ? HttpProgress::kDone : Reject(MalformedHttp(kMalformed));
  }
  return Reject(MalformedHttp(kMalformed));
}

}  // namespace hydrant
