// Offload runs work that would hold up an io thread (a large body to parse, a long prompt to tokenise) on a thread
// pool, and resumes the coroutine on its own executor.
#ifndef HYDRANT_SERVER_HTTP_OFFLOAD_H_
#define HYDRANT_SERVER_HTTP_OFFLOAD_H_

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstddef>
#include <exception>
#include <functional>
#include <utility>

namespace hydrant {

// Parsing and tokenising a body of 16 KiB takes a millisecond or two; more would be felt by the other streams of an io
// thread.
inline constexpr size_t kInlineBytes = 16 << 10;

// `work` may refer to the awaiting coroutine's frame, which stays until it is resumed. What it throws is rethrown here.
inline boost::asio::awaitable<void> Offload(boost::asio::thread_pool& pool, std::function<void()> work) {
  namespace asio = boost::asio;
  auto start = [&pool, &work](auto handler) {
    const auto executor = asio::get_associated_executor(handler);
    asio::post(pool,
               [&work, guard = asio::make_work_guard(executor), handler = std::move(handler), executor]() mutable {
                 std::exception_ptr error;
                 try {
                   work();
                 } catch (...) {
                   error = std::current_exception();
                 }
                 asio::dispatch(executor, [handler = std::move(handler), error]() mutable { handler(error); });
               });
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void(std::exception_ptr)>(start, asio::use_awaitable);
}

}  // namespace hydrant

#endif  // HYDRANT_SERVER_HTTP_OFFLOAD_H_
