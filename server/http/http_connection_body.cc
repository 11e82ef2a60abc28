// The part of HttpConnection that reads bodies.
#include <algorithm>
#include <optional>
#include <utility>

#include "server/http/body_reader.h"
#include "server/http/http_connection.h"
#include "server/process/clock.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;

}  // namespace

asio::awaitable<bool> HttpConnection::ReadBody(HttpExchange& exchange, bool keep, int64_t bytes_max) {
  const HttpHead& head = exchange.head();
  if (head.expects_continue && head.version_minor >= 1 && input_.empty()) {
    const bool ok = co_await WriteAll("HTTP/1.1 100 Continue\r\n\r\n");
    if (!ok) co_return false;
  }
  std::string& body = exchange.body_so_far();
  BodyReader reader(head, context_.limits, &body);
  const int64_t began_us = MonotonicUs();
  ArmDeadline(reader.due_s());
  while (true) {
    const HttpProgress progress = reader.Take(&input_);
    if (progress == HttpProgress::kRejected) {
      DisarmDeadline();
      co_await exchange.RespondError(reader.reject());
      co_return false;
    }
    if (std::ssize(body) > bytes_max) {  // it did not say so
      DisarmDeadline();
      co_await exchange.RespondError(PayloadTooLarge(static_cast<uint64_t>(bytes_max)));
      co_return false;
    }
    if (!keep) body.clear();
    if (head.framing == BodyFraming::kChunked && exchange.place() != nullptr) {
      std::optional<HttpResponse> refusal = exchange.place()->HoldBody(static_cast<int64_t>(body.size()));
      if (refusal.has_value()) {
        DisarmDeadline();
        co_await exchange.Respond(std::move(*refusal));
        co_return false;
      }
    }
    if (progress == HttpProgress::kDone) break;
    const ReadResult result = co_await ReadSome();
    if (result == ReadResult::kBytes) continue;
    const double left_s = reader.due_s() - static_cast<double>(MonotonicUs() - began_us) * 1e-6;
    if (result == ReadResult::kTimeout && left_s > 0) {
      ArmDeadline(left_s);  // it brought something meanwhile
      continue;
    }
    DisarmDeadline();
    if (result == ReadResult::kClosed) {
      client_gone_ = true;
    } else {
      co_await exchange.RespondError(RequestTimeout());
    }
    co_return false;
  }
  DisarmDeadline();
  exchange.SetBodyRead(true);
  co_return true;
}

asio::awaitable<BodyProgress> HttpConnection::ReadBodyPiece(const HttpHead& head, std::string* piece) {
  piece->clear();
  if (body_received_ == head.content_length) co_return BodyProgress::kOver;
  if (body_received_ == 0 && head.expects_continue && head.version_minor >= 1 && input_.empty()) {
    const bool ok = co_await WriteAll("HTTP/1.1 100 Continue\r\n\r\n");
    if (!ok) co_return BodyProgress::kGone;
  }
  const Limits& limits = context_.limits;
  while (piece->size() < kBodyPieceBytes && body_received_ < head.content_length) {
    if (!input_.empty()) {
      const uint64_t wanted = std::min<uint64_t>(kBodyPieceBytes - piece->size(), head.content_length - body_received_);
      const auto taken = static_cast<size_t>(std::min<uint64_t>(wanted, input_.size()));
      piece->append(input_, 0, taken);
      input_.erase(0, taken);
      body_received_ += taken;
      // What came earlier than it had to is worth no more than the grace: whoever was fast may stall for so long, and not for hours.
      body_patience_us_ = std::min<int64_t>(
          static_cast<int64_t>(limits.body_grace_s * 1e6),
          body_patience_us_ + static_cast<int64_t>(static_cast<double>(taken) / limits.body_bytes_per_s_min * 1e6));
      continue;
    }
    // By its rate alone: a body that is read this way has no length that all of them come in.
    ArmDeadline(static_cast<double>(std::max<int64_t>(0, body_patience_us_)) * 1e-6);
    const int64_t began_us = MonotonicUs();
    const ReadResult result = co_await ReadSome();
    body_patience_us_ -= MonotonicUs() - began_us;
    DisarmDeadline();
    if (result == ReadResult::kTimeout) co_return BodyProgress::kSlow;
    if (result == ReadResult::kClosed) {
      client_gone_ = true;
      co_return BodyProgress::kGone;
    }
  }
  co_return BodyProgress::kPiece;
}

}  // namespace hydrant
