#include "tests/simt/machine.h"

#include <algorithm>
#include <array>
#include <boost/context/fiber.hpp>
#include <boost/context/preallocated.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HYDRANT_SIMT_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define HYDRANT_SIMT_ASAN 1
#endif
#ifdef HYDRANT_SIMT_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace hydrant::simt {

Place place;

namespace {

constexpr size_t kStackBytes = size_t{256} << 10;
constexpr size_t kThreadsMax = 1024;
// Stacks begin at multiples of a page. Their ends, where the threads of a block wait for each other, lie this much nearer from
// thread to thread, or all would want the same few lines of the caches.
constexpr size_t kStackStep = 448, kStackSteps = 128;
constexpr const char* kAwaitRule =
    "every thread of a kernel awaits earlier kernels, once (kernels/cuda/runtime/overlap.cuh)";

// AddressSanitizer must know on which stack the program goes on.
struct SwitchNote {
#ifdef HYDRANT_SIMT_ASAN
  void Leave(const void* bottom, size_t bytes) { __sanitizer_start_switch_fiber(&fake_stack, bottom, bytes); }
  void Arrive(const void** bottom, size_t* bytes) { __sanitizer_finish_switch_fiber(fake_stack, bottom, bytes); }
  void* fake_stack = nullptr;
#else
  void Leave(const void*, size_t) {}
  void Arrive(const void**, size_t*) {}
#endif
};

enum class State : uint8_t { kReady, kInBarrier, kInWarp, kDone };

struct Warp {
  uint32_t arrived = 0;
  // The collective in progress, and what a lane gives.
  Collective which = Collective::kSync;
  size_t bytes = 0;
  int turn = 0;  // which buffer the collective in progress fills
  std::array<std::array<std::byte, kWarp * kExchangeBytes>, 2> buffers;
};

struct NoStack {
  boost::context::stack_context allocate() { return {}; }
  void deallocate(boost::context::stack_context&) {}
};

class Machine {
 public:
  Machine() { threads_.reserve(kThreadsMax); }

  void Run(Index grid, Index block, const std::function<void()>& kernel, size_t shared_bytes, bool awaits) {
    kernel_ = &kernel;
    awaited_ = 0;
    shared_bytes_ = shared_bytes;
    void* memory = nullptr;
    Check(posix_memalign(&memory, kSharedAlignment, shared_bytes) == 0,
          "there is no memory for a block's shared memory");
    shared_.reset(static_cast<std::byte*>(memory));
    const size_t threads = size_t{block.x} * block.y * block.z;
    Check(threads > 0 && threads <= kThreadsMax && threads % kWarp == 0,
          "a block has a multiple of 32 threads, at most 1,024");
    Check(grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.y <= 65535 && grid.z <= 65535,
          "a grid has 1 to 65,535 blocks");
    while (threads_.size() < threads) AddThread();
    warps_.resize(std::max(warps_.size(), threads / kWarp));
    backwards_ = false;
    for (uint32_t z = 0; z < grid.z; ++z) {
      for (uint32_t y = 0; y < grid.y; ++y) {
        for (uint32_t x = 0; x < grid.x; ++x) {
          RunBlock({{}, {x, y, z}, block, grid, 0}, threads);
          backwards_ = !backwards_;
        }
      }
    }
    Check(!awaits || awaited_ == threads * grid.x * grid.y * grid.z, kAwaitRule);
  }

  void Await() {
    Check(!threads_[current_].awaited, kAwaitRule);
    threads_[current_].awaited = true;
    ++awaited_;
  }
  std::byte* shared_memory() const { return shared_.get(); }

  void Wait(State state) {
    states_[current_] = state;
    SwitchTo(NextReady());
  }

  void SyncBlock() {
    if (++in_barrier_ < alive_) return Wait(State::kInBarrier);
    in_barrier_ = 0;
    Release(0, block_threads_, State::kInBarrier);
  }

  const std::byte* Exchange(const void* value, size_t bytes, Collective which) {
    Check(bytes <= kExchangeBytes, "a lane exchanges at most 64 bytes");
    Warp& warp = warps_[current_ / kWarp];
    std::byte* buffer = warp.buffers[static_cast<size_t>(warp.turn)].data();
    Check(warp.arrived == 0 || (warp.which == which && warp.bytes == bytes),
          "the lanes of a warp meet in different collectives");
    warp.which = which;
    warp.bytes = bytes;
    std::memcpy(buffer + current_ % kWarp * bytes, value, bytes);
    if (++warp.arrived < kWarp) {
      Wait(State::kInWarp);
    } else {
      warp.arrived = 0;
      warp.turn = 1 - warp.turn;
      const size_t begin = current_ / kWarp * kWarp;
      Release(begin, begin + kWarp, State::kInWarp);
    }
    return buffer;
  }

 private:
  struct Thread {
    std::unique_ptr<std::byte[]> stack;
    boost::context::fiber fiber;
    bool awaited = false;
    Index index;
  };

  static void Check(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "simt: %s\n", what);
    std::abort();
  }

  void AddThread() {
    Thread& thread = threads_.emplace_back();
    thread.stack.reset(new std::byte[kStackBytes]);
    boost::context::stack_context context;
    context.size = kStackBytes - threads_.size() % kStackSteps * kStackStep;
    context.sp = thread.stack.get() + context.size;
    thread.fiber =
        boost::context::fiber(std::allocator_arg, boost::context::preallocated(context.sp, context.size, context),
                              NoStack(), [this](boost::context::fiber&& left) {
                                SwitchNote note;
                                Arrive(note, std::move(left));
                                while (true) {
                                  (*kernel_)();
                                  End();
                                }
                                return boost::context::fiber();
                              });
  }

  boost::context::fiber& FiberOf(size_t thread) { return thread == kHost ? host_ : threads_[thread].fiber; }

  // Goes on as `thread`; returns when another goes on as the one that called. Straight from thread to thread: a switch is
  // most of what a collective costs.
  void SwitchTo(size_t thread) {
    left_ = current_;
    current_ = thread;
    SwitchNote note;
    if (thread == kHost) {
      note.Leave(host_stack_, host_stack_bytes_);
    } else {
      place.thread = threads_[thread].index;
      place.lane = static_cast<uint32_t>(thread % kWarp);
      note.Leave(threads_[thread].stack.get(), kStackBytes);
    }
    Arrive(note, std::move(FiberOf(thread)).resume());
  }

  void Arrive(SwitchNote& note, boost::context::fiber left) {
    const void* stack = nullptr;
    size_t bytes = 0;
    note.Arrive(&stack, &bytes);
    if (left_ == kHost) {
      host_stack_ = stack;
      host_stack_bytes_ = bytes;
    }
    FiberOf(left_) = std::move(left);
  }

  // The next after the current one, in the order of this block, that can go on.
  size_t NextReady() const {
    size_t next = current_;
    for (size_t i = 0; i < block_threads_; ++i) {
      if (backwards_) {
        next = next == 0 ? block_threads_ - 1 : next - 1;
      } else {
        next = next + 1 == block_threads_ ? 0 : next + 1;
      }
      if (states_[next] == State::kReady) return next;
    }
    Check(false, "no thread of the block can go on: a barrier or warp collective that not all reach");
    return kHost;
  }

  // The kernel has returned in the current thread.
  void End() {
    states_[current_] = State::kDone;
    if (--alive_ == 0) return SwitchTo(kHost);
    // Threads that have ended are not waited for.
    if (in_barrier_ == alive_) {
      in_barrier_ = 0;
      Release(0, block_threads_, State::kInBarrier);
    }
    SwitchTo(NextReady());
  }

  void Release(size_t begin, size_t end, State from) {
    for (size_t i = begin; i < end; ++i) {
      if (states_[i] == from) states_[i] = State::kReady;
    }
  }

  void RunBlock(const Place& where, size_t threads) {
    place = where;
    if (shared_bytes_ > 0) std::memset(shared_.get(), 0xff, shared_bytes_);
    block_threads_ = alive_ = threads;
    in_barrier_ = 0;
    for (size_t i = 0; i < threads; ++i) {
      const auto x = static_cast<uint32_t>(i);
      threads_[i].index = {x % where.block_dim.x, x / where.block_dim.x % where.block_dim.y,
                           x / (where.block_dim.x * where.block_dim.y)};
      states_[i] = State::kReady;
      threads_[i].awaited = false;
    }
    SwitchTo(backwards_ ? threads - 1 : 0);
  }

  static constexpr size_t kHost = SIZE_MAX;
  static constexpr size_t kSharedAlignment = 1024;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  const std::function<void()>* kernel_ = nullptr;
  size_t awaited_ = 0;  // threads that did
  std::unique_ptr<std::byte, Free> shared_;
  size_t shared_bytes_ = 0;
  std::vector<Thread> threads_;  // never moved: fibers know where they are
  std::array<State, kThreadsMax> states_ = {};
  std::vector<Warp> warps_;
  size_t current_ = kHost;
  size_t left_ = kHost;  // who ran before the last switch
  bool backwards_ = false;
  size_t block_threads_ = 0, alive_ = 0, in_barrier_ = 0;
  boost::context::fiber host_;
  const void* host_stack_ = nullptr;
  size_t host_stack_bytes_ = 0;
};

Machine& TheMachine() {
  static Machine& machine = *new Machine;  // its fibers are never unwound
  return machine;
}

}  // namespace

void RunGrid(Index grid, Index block, const std::function<void()>& kernel, size_t shared_bytes, bool awaits) {
  TheMachine().Run(grid, block, kernel, shared_bytes, awaits);
}
void SyncBlock() { TheMachine().SyncBlock(); }
const std::byte* ExchangeInWarp(const void* value, size_t bytes, Collective which) {
  return TheMachine().Exchange(value, bytes, which);
}
void Await() { TheMachine().Await(); }
std::byte* SharedMemory() { return TheMachine().shared_memory(); }

}  // namespace hydrant::simt
