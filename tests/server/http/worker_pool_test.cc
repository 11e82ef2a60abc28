#include "server/http/worker_pool.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <ctime>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace hydrant {
namespace {

namespace asio = boost::asio;

constexpr std::string_view kClient = "192.0.2.1";

class WorkerPoolTest : public testing::Test {
 protected:
  ~WorkerPoolTest() override {
    pool_.Join();
    io_.stop();
    io_thread_.join();
  }

  // Asks for a piece of work that writes `letter` when it runs.
  std::future<void> Ask(WorkOwner owner, char letter) {
    return asio::co_spawn(
        io_, [this, owner, letter] { return pool_.Run(owner, [this, letter] { Write(letter); }); }, asio::use_future);
  }
  // One that runs until `end`.
  std::future<void> AskToWait(WorkOwner owner, std::shared_future<void> end) {
    return asio::co_spawn(
        io_, [this, owner, end] { return pool_.Run(owner, [end] { end.wait(); }); }, asio::use_future);
  }
  // What was asked for so far is in its lines.
  void Settle() {
    std::promise<void> settled;
    asio::post(io_, [&settled] { settled.set_value(); });
    settled.get_future().wait();
  }
  void Write(char letter) {
    const std::lock_guard<std::mutex> lock(mutex_);
    written_.push_back(letter);
  }
  // Where RunHereIfSmall ran `work`.
  std::thread::id Where(
      int32_t tenant, size_t bytes, const std::function<void()>& work = [] {}) {
    std::thread::id id;
    asio::co_spawn(
        io_,
        [&] {
          return pool_.RunHereIfSmall(bytes, {tenant, kClient}, [&] {
            id = std::this_thread::get_id();
            work();
          });
        },
        asio::use_future)
        .get();
    return id;
  }

  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> guard_ = asio::make_work_guard(io_);
  std::thread io_thread_{[this] { io_.run(); }};
  WorkerPool pool_{2};
  std::mutex mutex_;
  std::string written_;
};

TEST_F(WorkerPoolTest, LinesTakeTurns) {
  std::promise<void> a_ends, b_ends;
  const auto a = AskToWait({0, kClient}, a_ends.get_future().share());
  const auto b = AskToWait({1, kClient}, b_ends.get_future().share());
  std::vector<std::future<void>> asked;
  for (int i = 0; i < 3; ++i) asked.push_back(Ask({0, kClient}, 'a'));  // came first, and all wait behind a
  const auto c = Ask({2, kClient}, 'c');
  EXPECT_EQ(c.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout) << "both threads are taken";
  b_ends.set_value();
  c.wait();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_EQ(written_, "c") << "a client has one piece at a time, so the others' line was not its own";
  }
  a_ends.set_value();
  for (auto& future : asked) future.wait();
  EXPECT_EQ(written_, "caaa");
}

// Where everybody is the same tenant, an address of its own is what tells a client from the others.
TEST_F(WorkerPoolTest, ClientsOfATenantDoNotWaitForEachOther) {
  std::promise<void> ends;
  const auto large = AskToWait({0, kClient}, ends.get_future().share());
  std::vector<std::future<void>> more;
  for (int i = 0; i < 3; ++i) more.push_back(Ask({0, kClient}, 'a'));
  Ask({0, "192.0.2.2"}, 'b').get();
  Ask({0, "2001:db8::1"}, 'c').get();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_EQ(written_, "bc");
  }
  ends.set_value();
  for (auto& future : more) future.wait();
  EXPECT_EQ(written_, "bcaaa");
}

TEST_F(WorkerPoolTest, TenantsTakeTurnsBeforeTheirClients) {
  std::promise<void> a_ends, b_ends;
  const auto a = AskToWait({0, kClient}, a_ends.get_future().share());
  const auto b = AskToWait({0, "192.0.2.2"}, b_ends.get_future().share());
  std::vector<std::future<void>> asked;
  for (const char* address : {"192.0.2.3", "192.0.2.4", "192.0.2.5"}) asked.push_back(Ask({0, address}, 'a'));
  asked.push_back(Ask({1, kClient}, 'c'));
  Settle();
  b_ends.set_value();
  for (auto& future : asked) future.wait();
  EXPECT_LE(written_.find('c'), 1u) << written_;
  a_ends.set_value();
}

TEST_F(WorkerPoolTest, WhatWorkThrowsIsThrownWhereItWasAsked) {
  auto thrown = asio::co_spawn(
      io_,
      [this] {
        return pool_.Run({0, kClient}, [] { throw std::runtime_error("no"); });
      },
      asio::use_future);
  EXPECT_THROW(thrown.get(), std::runtime_error);
  EXPECT_NO_THROW(Ask({0, kClient}, 'x').get());
}

TEST_F(WorkerPoolTest, WhatTookLongIsNotDoneOnAnIoThreadAgain) {
  const std::thread::id io = io_thread_.get_id();
  const auto burn = [] {
    const std::clock_t until = std::clock() + CLOCKS_PER_SEC / 50;
    while (std::clock() < until) continue;
  };
  EXPECT_EQ(Where(0, 100), io);
  EXPECT_NE(Where(0, 1 << 20), io) << "a large body never is";
  EXPECT_EQ(Where(0, 100, burn), io) << "nobody could know";
  EXPECT_NE(Where(0, 100), io);
  EXPECT_EQ(Where(1, 100), io) << "another tenant's are as quick as before";
}

}  // namespace
}  // namespace hydrant
