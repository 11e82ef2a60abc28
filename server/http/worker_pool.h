// WorkerPool runs what would hold up an io thread (a large body to parse, a long prompt to tokenize, a chat template that takes its
// time) on threads of its own, and resumes the coroutine on its own executor. It is fair between tenants, and between the clients
// of one: each has a line, the lines take turns, and of each line one piece of work runs at a time.
//
// Thread: any; a short lock.
//
// Invariants
//  1. A client's work waits for its own, for at most one piece of each other tenant, and for at most one of each other client of
//     its tenant. A client is a group of addresses (PeerGroup).
//  2. A tenant whose small bodies took long lately has them run here: what takes long is on an io thread once in kSlowUs at most.
//  3. Work that was taken in is run, and its coroutine resumed, whatever memory there is: only Run itself can throw for want of it,
//     and then nothing was taken in.
#ifndef HYDRANT_SERVER_HTTP_WORKER_POOL_H_
#define HYDRANT_SERVER_HTTP_WORKER_POOL_H_

#include <boost/asio/awaitable.hpp>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace hydrant {

// Who a piece of work is for.
struct WorkOwner {
  int32_t tenant = 0;        // index
  std::string_view address;  // of the client, as text
};

class WorkerPool {
 public:
  explicit WorkerPool(int32_t threads);
  ~WorkerPool() { Join(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // `owner.address` is read before this suspends. `work` may refer to the awaiting coroutine's frame, which stays until it is
  // resumed. What it throws is rethrown there.
  boost::asio::awaitable<void> Run(WorkOwner owner, std::function<void()> work);
  // The same, but where it is awaited when it is of a body so small that it is expected to take a millisecond or two.
  boost::asio::awaitable<void> RunHereIfSmall(size_t body_bytes, WorkOwner owner, std::function<void()> work);
  // Waits for the end of all work; no more may come.
  void Join();

 private:
  using Pieces = std::list<std::function<void()>>;
  // A client's work; it is there for as long as there is some.
  struct Line {
    Line() = default;
    Line(const Line&) = delete;
    Line& operator=(const Line&) = delete;

    const std::string* group = nullptr;  // its key
    Pieces waiting;
    bool running = false;                               // a piece
    std::list<Line*> node{this};                        // lent to Tenant::ready while work waits and none runs
    const std::list<Line*>::iterator at{node.begin()};  // stays the same wherever the node is
  };
  struct Tenant {
    std::map<std::string, Line> lines;  // by PeerGroup
    std::list<Line*> ready;             // whose turn it is next is first
    int64_t slow_until_us = 0;
  };

  void Post(const WorkOwner& owner, std::function<void()> task);
  void Work();
  void NoteTime(int32_t tenant, int64_t cpu_us);
  // These REQUIRE mutex_ held.
  Tenant& Of(int32_t tenant);
  Tenant* NextTenant();  // null: there is nothing to be done
  static void MakeReady(Tenant& tenant, Line& line);

  std::mutex mutex_;
  std::condition_variable arrived_;
  // Guarded by mutex_.
  std::deque<Tenant> tenants_;  // by index
  size_t turn_ = 0;             // of the tenant that comes first next time
  bool closing_ = false;
  std::vector<std::thread> threads_;  // last: they use the others
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_HTTP_WORKER_POOL_H_
