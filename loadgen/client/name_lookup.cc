#include "loadgen/client/name_lookup.h"

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hydrant {

absl::StatusOr<Endpoints> SystemLookup(const std::string& host, uint16_t port) {
  using boost::asio::ip::tcp;
  boost::asio::io_context io;
  boost::system::error_code error;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(host, absl::StrCat(port), error);
  if (error) return absl::UnavailableError(error.message());
  Endpoints endpoints;
  for (const auto& entry : found) endpoints.push_back(entry.endpoint());
  return endpoints;
}

absl::StatusOr<Endpoints> LookupWithin(const NameLookup& lookup, const std::string& host, uint16_t port,
                                       double timeout_s) {
  // The thread has copies of all it needs: it may outlive the caller.
  std::promise<absl::StatusOr<Endpoints>> promise;
  std::future<absl::StatusOr<Endpoints>> answer = promise.get_future();
  std::thread([lookup, host, port, promise = std::move(promise)]() mutable {
    promise.set_value(lookup(host, port));
  }).detach();
  if (answer.wait_for(std::chrono::duration<double>(timeout_s)) != std::future_status::ready) {
    return absl::DeadlineExceededError("the name was not found in time");
  }
  return answer.get();
}

}  // namespace hydrant
