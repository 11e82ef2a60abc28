#include "loadgen/client/http_get.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "api/wire/json_body.h"
#include "loadgen/client/response_reader.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr uint64_t kBodyMax = 64 << 20;

// What is asked sets *result; a coroutine that is ended from outside leaves it as it was.
using Result = absl::StatusOr<std::string>;

asio::awaitable<void> Connect(Connection* connection, Result* result) {
  const error_code error = co_await connection->Open();
  *result = error ? Result(absl::UnavailableError(error.message())) : Result("");
}

asio::awaitable<void> Get(Connection* connection, std::string request, Result* result) {
  error_code error = co_await connection->Open();
  if (!error) error = co_await connection->Write(request);
  if (error) {
    *result = absl::UnavailableError(error.message());
    co_return;
  }
  std::string body;
  ResponseReader reader([&](std::string_view bytes) { body.append(bytes); }, kBodyMax);
  while (!reader.done() && reader.error().empty()) {
    error = co_await connection->Read();
    if (error) {
      reader.FeedEnd();
      break;
    }
    connection->Take(reader.Feed(connection->unread()));
  }
  if (!reader.done()) {
    *result = absl::DataLossError(absl::StrCat("not a whole HTTP answer: ", reader.error()));
  } else if (reader.status() != 200) {
    const std::string text = absl::StrCat("HTTP ", reader.status());
    const bool refused = reader.status() == 401 || reader.status() == 403;
    *result = refused ? absl::PermissionDeniedError(text) : absl::FailedPreconditionError(text);
  } else {
    *result = std::move(body);
  }
}

// `ask` makes the coroutine that asks over a connection; `what` is for messages.
template <typename Ask>
Result Wait(Peer* peer, std::string_view what, double timeout_s, Ask ask) {
  asio::io_context io;
  Connection connection(io, peer);
  Result result = absl::DeadlineExceededError("no answer in time");
  asio::co_spawn(io, ask(&connection, &result), asio::detached);
  io.run_for(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(timeout_s)));
  if (result.ok()) return result;
  return absl::Status(result.status().code(),
                      absl::StrCat(peer->url.ToString(), std::string(what), ": ", result.status().message()));
}

}  // namespace

absl::Status TryConnection(Peer* peer, double timeout_s) { return Wait(peer, "", timeout_s, Connect).status(); }

absl::StatusOr<std::string> HttpGet(Peer* peer, std::string_view path, std::string_view key, const HttpFields& fields,
                                    double timeout_s) {
  return Wait(peer, path, timeout_s, [&](Connection* connection, Result* result) {
    return Get(connection, HttpRequest(peer->url, path, key, fields, ""), result);
  });
}

absl::StatusOr<std::string> FirstModel(Peer* peer, std::string_view key, const HttpFields& fields, double timeout_s) {
  const absl::StatusOr<std::string> text = HttpGet(peer, "/v1/models", key, fields, timeout_s);
  if (!text.ok()) return text.status();
  const ApiResult<JsonBody> body = JsonBody::Parse(*text, RequestLimits());
  if (body.ok() && body.value().root().is_object()) {
    const JsonView list = body.value().root()["data"];
    if (list.is_array() && list.size() == 0) {
      return absl::NotFoundError(absl::StrCat(peer->url.ToString(), "/v1/models: there is no model"));
    }
    if (list.is_array() && list.first().valid() && list.first().is_object()) {
      const JsonView id = list.first()["id"];
      if (id.is_string()) return std::string(id.string());
    }
  }
  return absl::DataLossError(absl::StrCat(peer->url.ToString(), "/v1/models: names no model; give --model"));
}

}  // namespace hydrant
