#include "server/http/http_exchange.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/wire/limits.h"
#include "api/wire/messages_error.h"
#include "api/wire/request_id.h"
#include "server/process/clock.h"
#include "server/process/random_id.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;

// What is left of an answer when its place is given back: the kernel takes it at once, or nearly.
constexpr size_t kLastBytes = 64 << 10;

// What a page of an allowed origin may read of a response.
constexpr const char* kExposedFields =
    "x-request-id, request-id, x-hydrant-replica, x-hydrant-durable, "
    "x-hydrant-tools-not-offered, retry-after, x-ratelimit-limit-requests, "
    "x-ratelimit-remaining-requests, "
    "x-ratelimit-reset-requests, "
    "x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens";

}  // namespace

HttpExchange::HttpExchange(ResponseStream& stream, HttpHead head, std::string_view client)
    : stream_(stream), head_(std::move(head)), client_(client), arrival_us_(MonotonicUs()) {
  const std::string* id = head_.Find("x-request-id");
  request_id_ = id != nullptr && IsRequestId(*id, RequestLimits().request_id_bytes_max) ? *id : RandomId();
}

HttpResponse HttpExchange::WithCommonFields(HttpResponse response) const {
  if (response.close || !body_read_) stream_.CloseAfterResponse();
  if (!replica_.empty()) response.fields.emplace_back("x-hydrant-replica", replica_);
  SpeakIn(dialect_, request_id_, &response);
  if (const std::string* origin = head_.Find("origin"); origin != nullptr && origin_admitted_) {
    response.fields.emplace_back("access-control-allow-origin", *origin);
    response.fields.emplace_back("access-control-expose-headers", kExposedFields);
    response.fields.emplace_back("vary", "origin");
  }
  return response;
}

asio::awaitable<void> HttpExchange::Respond(HttpResponse response) {
  assert(status_ == 0);
  response = WithCommonFields(std::move(response));
  status_ = response.status;
  if (response.error.has_value()) notes_.error_code = response.error->code;
  std::string_view body = response.body;
  const bool is_small = body.size() <= kLastBytes;
  std::string out;
  out.reserve(512 + (is_small ? body.size() : 0));
  AppendHead(response, head_.version_minor, stream_.KeepsAlive(), static_cast<int64_t>(body.size()), request_id_, &out);
  if (head_.method == "HEAD") body = {};
  if (is_small) {
    out.append(body);
    ClosePlace();
    co_await stream_.WriteAll(out);
    co_return;
  }
  // There is one copy of a large answer, and it counts for as long as its client leaves it here.
  if (place_ != nullptr) place_->HoldAnswer(static_cast<int64_t>(body.size()));
  bool ok = co_await stream_.WriteAll(out);
  if (ok) ok = co_await stream_.WriteAll(body.substr(0, body.size() - std::min(body.size(), kLastBytes)));
  ClosePlace();
  if (ok) co_await stream_.WriteAll(body.substr(body.size() - std::min(body.size(), kLastBytes)));
}

void HttpExchange::DropBody() {
  std::string().swap(body_);
  if (place_ != nullptr) place_->ReleaseBody();
}

void HttpExchange::ClosePlace() {
  if (place_ != nullptr) place_->Close();
}

void SpeakIn(Dialect dialect, std::string_view request_id, HttpResponse* response) {
  if (dialect != Dialect::kAnthropic) return;
  response->fields.emplace_back("request-id", request_id);
  if (!response->error.has_value()) return;
  response->status = MessagesErrorStatus(*response->error);
  response->body = MessagesErrorJson(*response->error, request_id);
}

HttpResponse ErrorResponse(const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = ErrorJson(error);
  response.error = error;
  if (!error.allow.empty()) response.fields.emplace_back("allow", error.allow);
  if (error.status == 401) response.fields.emplace_back("www-authenticate", "Bearer");
  if (error.retry_after_s > 0) response.fields.emplace_back("retry-after", absl::StrCat(error.retry_after_s));
  return response;
}

asio::awaitable<void> HttpExchange::RespondError(ApiError error) {
  HttpResponse response = ErrorResponse(error);
  co_await Respond(std::move(response));
}

void HttpExchange::BeginStream(HttpResponse head, int64_t bytes) {
  assert(status_ == 0);
  chunked_ = head_.version_minor >= 1 && bytes < 0;
  head_only_ = head_.method == "HEAD" && bytes >= 0;
  if (!chunked_ && bytes < 0) head.close = true;
  head = WithCommonFields(std::move(head));
  status_ = head.status;
  streaming_ = true;
  AppendHead(head, head_.version_minor, stream_.KeepsAlive(), bytes, request_id_, &stream_head_);
}

asio::awaitable<BodyProgress> HttpExchange::ReadBodyPiece(std::string* piece) {
  const BodyProgress progress = co_await stream_.ReadBodyPiece(head_, piece);
  if (progress == BodyProgress::kOver) body_read_ = true;
  co_return progress;
}

asio::awaitable<bool> HttpExchange::Write(std::string_view piece) {
  assert(streaming_);
  if (piece.empty() || head_only_) co_return !stream_.client_gone();
  std::string out = std::move(stream_head_);
  stream_head_.clear();
  if (chunked_) {
    absl::StrAppend(&out, absl::Hex(piece.size()), "\r\n");
    out.append(piece).append("\r\n");
  } else {
    out.append(piece);
  }
  const bool ok = co_await stream_.WriteAll(out);
  co_return ok;
}

asio::awaitable<void> HttpExchange::EndStream() {
  assert(streaming_);
  std::string out = std::move(stream_head_);
  stream_head_.clear();
  if (chunked_) out.append("0\r\n\r\n");
  co_await stream_.WriteAll(out);
}

}  // namespace hydrant
