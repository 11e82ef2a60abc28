#include "kernels/cpu/runtime/thread_pool.h"

#include <sched.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <new>
#include <numeric>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace hydrant {
namespace {

double ProcessCpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(ThreadPool, RunsEveryThreadOnceAndShowsItsWrites) {
  for (int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    std::vector<int> calls(static_cast<size_t>(threads), 0);  // plain ints: TSan sees any missing ordering
    for (int i = 1; i <= 500; ++i) {
      pool.Run([&](int thread) { ++calls[static_cast<size_t>(thread)]; });
      for (int count : calls) ASSERT_EQ(count, i);
    }
  }
}

TEST(ThreadPool, WhatAFunctionThrowsIsThrownOnceAllAreDone) {
  for (int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (int failing = 0; failing <= threads; ++failing) {
      std::vector<int> calls(static_cast<size_t>(threads), 0);
      const auto run = [&] {
        pool.Run([&](int thread) {
          if (thread == failing || failing == threads) throw std::bad_alloc();
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          ++calls[static_cast<size_t>(thread)];
        });
      };
      EXPECT_THROW(run(), std::bad_alloc);
      EXPECT_EQ(std::accumulate(calls.begin(), calls.end(), 0), failing == threads ? 0 : threads - 1);
    }
    EXPECT_NO_THROW(pool.Run([](int) {}));
  }
}

TEST(ThreadPool, PartsCoverTheRangeInOrderOnGrainBorders) {
  for (int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    for (int64_t count : {0, 1, 2, 15, 16, 17, 48, 100}) {
      for (int64_t grain : {1, 2, 16}) {
        int64_t next = 0;
        for (int thread = 0; thread < threads; ++thread) {
          const ThreadPool::Range part = pool.Part(count, grain, thread);
          EXPECT_EQ(part.begin, next);
          EXPECT_LE(part.begin, part.end);
          if (part.end != count) {
            EXPECT_EQ(part.end % grain, 0);
          }
          next = part.end;
        }
        EXPECT_EQ(next, count);
      }
    }
  }
}

TEST(ThreadPool, ParallelForTouchesEachElementOnce) {
  for (int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    for (int64_t count : {1, 15, 16, 17, 1000}) {
      std::vector<int> touched(static_cast<size_t>(count), 0);
      pool.ParallelFor(count, 4, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) ++touched[static_cast<size_t>(i)];
      });
      EXPECT_EQ(touched, std::vector<int>(static_cast<size_t>(count), 1));
    }
  }
}

TEST(ThreadPool, BarrierShowsWhatEveryThreadWroteBefore) {
  constexpr int kRounds = 200;
  for (int threads : {1, 2, 3, 4}) {
    ThreadPool pool(threads);
    std::vector<int> values(static_cast<size_t>(threads), 0);
    std::vector<int> wrong(static_cast<size_t>(threads), 0);
    pool.Run([&](int thread) {
      for (int round = 1; round <= kRounds; ++round) {
        values[static_cast<size_t>(thread)] = round;
        pool.Barrier();
        if (std::accumulate(values.begin(), values.end(), 0) != round * threads) ++wrong[static_cast<size_t>(thread)];
        pool.Barrier();
      }
    });
    EXPECT_EQ(wrong, std::vector<int>(static_cast<size_t>(threads), 0));
  }
}

TEST(ThreadPool, SleepersWakeUp) {
  ThreadPool pool(3);
  int calls[3] = {0, 0, 0};
  for (int i = 0; i < 20; ++i) {
    // Longer than any spin: the workers are asleep when the next function comes.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool.Run([&](int thread) {
      ++calls[thread];
      // And so is the owner when this one ends.
      if (thread == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    });
  }
  for (int count : calls) EXPECT_EQ(count, 20);
}

// Where others have the rest of the machine, the threads may find themselves on one processor: none spins for long at what another
// one needs it for. To spin 50 us for each of these would take 0.4 s and more.
TEST(ThreadPool, ThreadsOnOneProcessorTakeTurns) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  {
    ThreadPool pool(2);  // its thread is there, too
    std::atomic<int> calls = 0;
    const double began = ProcessCpuSeconds();
    for (int i = 0; i < 4000; ++i) pool.Run([&](int) { ++calls; });
    EXPECT_LT(ProcessCpuSeconds() - began, 0.2);
    EXPECT_EQ(calls, 8000);
  }
  EXPECT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(ThreadPool, IdlePoolUsesNoCpu) {
  ThreadPool pool(3);
  pool.Run([](int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = ProcessCpuSeconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(ProcessCpuSeconds() - before, 0.02);
}

}  // namespace
}  // namespace hydrant
