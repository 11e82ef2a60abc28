#include "server/http/worker_pool.h"

#include <pthread.h>

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <ctime>
#include <exception>
#include <memory>
#include <utility>

#include "server/http/peer_address.h"
#include "server/process/call_with_memory.h"
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

WorkerPool::WorkerPool(int32_t threads) {
  for (int32_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this] {
      pthread_setname_np(pthread_self(), "worker");
      Work();
    });
  }
}

void WorkerPool::Join() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  arrived_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

WorkerPool::Tenant& WorkerPool::Of(int32_t tenant) {
  const auto index = static_cast<size_t>(tenant);
  if (index >= tenants_.size()) tenants_.resize(index + 1);
  return tenants_[index];
}

WorkerPool::Tenant* WorkerPool::NextTenant() {
  for (size_t i = 0; i < tenants_.size(); ++i) {
    Tenant& tenant = tenants_[(turn_ + i) % tenants_.size()];
    if (tenant.ready.empty()) continue;
    turn_ = (turn_ + i + 1) % tenants_.size();
    return &tenant;
  }
  return nullptr;
}

void WorkerPool::MakeReady(Tenant& tenant, Line& line) { tenant.ready.splice(tenant.ready.end(), line.node, line.at); }

void WorkerPool::Post(const WorkOwner& owner, std::function<void()> task) {
  // Everything that takes memory comes before anything is changed.
  Pieces piece;
  piece.push_back(std::move(task));
  std::string group = PeerGroup(owner.address);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Tenant& tenant = Of(owner.tenant);
    auto& [name, line] = *tenant.lines.try_emplace(std::move(group)).first;
    line.group = &name;
    line.waiting.splice(line.waiting.end(), piece);
    if (line.running || line.waiting.size() > 1) return;
    MakeReady(tenant, line);
  }
  arrived_.notify_one();
}

void WorkerPool::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    Tenant* const tenant = NextTenant();
    if (tenant == nullptr) {
      // Whoever runs a piece looks itself for what comes after it.
      if (closing_) return;
      arrived_.wait(lock);
      continue;
    }
    Line& line = *tenant->ready.front();
    line.node.splice(line.node.begin(), tenant->ready, line.at);
    line.running = true;
    Pieces piece;
    piece.splice(piece.begin(), line.waiting, line.waiting.begin());
    lock.unlock();
    piece.front()();
    piece.clear();
    lock.lock();
    line.running = false;
    if (line.waiting.empty()) {
      tenant->lines.erase(tenant->lines.find(*line.group));
    } else {
      MakeReady(*tenant, line);
    }
  }
}

asio::awaitable<void> WorkerPool::Run(WorkOwner owner, std::function<void()> work) {
  auto start = [this, owner, &work](auto handler_in) {
    const auto executor = asio::get_associated_executor(handler_in);
    // A std::function can be copied, which the handler of a coroutine cannot.
    const auto handler = std::make_shared<decltype(handler_in)>(std::move(handler_in));
    Post(owner, [&work, guard = asio::make_work_guard(executor), handler, executor] {
      std::exception_ptr error;
      try {
        work();
      } catch (...) {
        error = std::current_exception();
      }
      // Nothing else resumes it.
      CallWhenThereIsMemory([&] { asio::dispatch(executor, [handler, error] { std::move (*handler)(error); }); });
    });
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void(std::exception_ptr)>(start, asio::use_awaitable);
}

void WorkerPool::NoteTime(int32_t tenant, int64_t cpu_us) {
  if (cpu_us < kLongUs) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  Of(tenant).slow_until_us = MonotonicUs() + kSlowUs;
}

asio::awaitable<void> WorkerPool::RunHereIfSmall(size_t body_bytes, WorkOwner owner, std::function<void()> work) {
  const auto timed = [this, tenant = owner.tenant, &work] {
    const int64_t before_us = ThreadCpuUs();
    work();
    NoteTime(tenant, ThreadCpuUs() - before_us);
  };
  bool here = body_bytes <= kSmallBytes;
  if (here) {
    const std::lock_guard<std::mutex> lock(mutex_);
    here = MonotonicUs() >= Of(owner.tenant).slow_until_us;
  }
  if (here) {
    timed();
  } else if (body_bytes <= kSmallBytes) {
    co_await Run(owner, timed);
  } else {
    co_await Run(owner, work);
  }
}

}  // namespace hydrant
