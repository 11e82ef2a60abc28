#include "server/http/worker_pool.h"

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <ctime>
#include <exception>
#include <memory>
#include <utility>

#include "server/process/clock.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;

// Parsing and tokenizing a body of 16 KiB takes a millisecond or two; more would be felt by the other streams of an io
// thread.
constexpr size_t kSmallBytes = 16 << 10;
// Processor time, so that a busy machine makes nothing slow.
constexpr int64_t kLongUs = 5'000;
constexpr int64_t kSlowUs = 10'000'000;

int64_t ThreadCpuUs() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000 + time.tv_nsec / 1000;
}

}  // namespace

WorkerPool::Line& WorkerPool::Of(int32_t tenant) {
  const auto index = static_cast<size_t>(tenant);
  if (index >= lines_.size()) lines_.resize(index + 1);
  return lines_[index];
}

void WorkerPool::Post(int32_t tenant, std::function<void()> task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Line& line = Of(tenant);
    line.waiting.push_back(std::move(task));
    if (line.running || line.waiting.size() > 1) return;
    turn_.push_back(tenant);
  }
  asio::post(threads_, [this] { RunOne(); });
}

void WorkerPool::RunOne() {
  int32_t tenant;
  std::function<void()> task;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    tenant = turn_.front();
    turn_.pop_front();
    Line& line = Of(tenant);
    task = std::move(line.waiting.front());
    line.waiting.pop_front();
    line.running = true;
  }
  task();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Line& line = Of(tenant);
    line.running = false;
    if (line.waiting.empty()) return;
    turn_.push_back(tenant);
  }
  asio::post(threads_, [this] { RunOne(); });
}

asio::awaitable<void> WorkerPool::Run(int32_t tenant, std::function<void()> work) {
  auto start = [this, tenant, &work](auto handler_in) {
    const auto executor = asio::get_associated_executor(handler_in);
    // A std::function can be copied, which the handler of a coroutine cannot.
    const auto handler = std::make_shared<decltype(handler_in)>(std::move(handler_in));
    Post(tenant, [&work, guard = asio::make_work_guard(executor), handler, executor] {
      std::exception_ptr error;
      try {
        work();
      } catch (...) {
        error = std::current_exception();
      }
      asio::dispatch(executor, [handler, error] { std::move (*handler)(error); });
    });
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void(std::exception_ptr)>(start, asio::use_awaitable);
}

void WorkerPool::NoteTime(int32_t tenant, int64_t cpu_us) {
  if (cpu_us < kLongUs) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  Of(tenant).slow_until_us = MonotonicUs() + kSlowUs;
}

asio::awaitable<void> WorkerPool::RunHereIfSmall(size_t body_bytes, int32_t tenant, std::function<void()> work) {
  const auto timed = [this, tenant, &work] {
    const int64_t before_us = ThreadCpuUs();
    work();
    NoteTime(tenant, ThreadCpuUs() - before_us);
  };
  bool here = body_bytes <= kSmallBytes;
  if (here) {
    const std::lock_guard<std::mutex> lock(mutex_);
    here = MonotonicUs() >= Of(tenant).slow_until_us;
  }
  if (here) {
    timed();
  } else if (body_bytes <= kSmallBytes) {
    co_await Run(tenant, timed);
  } else {
    co_await Run(tenant, work);
  }
}

}  // namespace hydrant
