#include "server/engine/stream_mailbox.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

namespace hydrant {
namespace {

TokenEvent Token(int32_t token, int32_t choice = 0) {
  TokenEvent event;
  event.choice = choice;
  event.token = token;
  return event;
}

TEST(StreamMailbox, AsksForOneWakeUpUntilItIsEmptied) {
  StreamMailbox mailbox(1, 1 << 20, [] {});
  EXPECT_TRUE(mailbox.PushToken(Token(1), {}).wake);
  EXPECT_FALSE(mailbox.PushToken(Token(2), {}).wake);
  EXPECT_FALSE(mailbox.PushPrompt({}));
  EXPECT_FALSE(mailbox.Fail());
  StreamBatch batch;
  EXPECT_FALSE(mailbox.Take(&batch));
  ASSERT_EQ(batch.tokens.size(), 2u);
  EXPECT_EQ(batch.tokens[1].token, 2);
  EXPECT_EQ(batch.prompts.size(), 1u);
  EXPECT_TRUE(batch.failed);
  EXPECT_TRUE(mailbox.PushToken(Token(3), {}).wake);
}

TEST(StreamMailbox, TheStatusOfEachChoiceIsTheLatest) {
  StreamMailbox mailbox(2, 1 << 20, [] {});
  SequenceProgress status;
  for (int32_t live = 1; live <= 3; ++live) {
    status.live = live;
    mailbox.PushToken(Token(0, live % 2), status);
  }
  StreamBatch batch;
  (void)mailbox.Take(&batch);
  EXPECT_EQ(batch.status[0].live, 2);
  EXPECT_EQ(batch.status[1].live, 3);
  (void)mailbox.Take(&batch);
  EXPECT_TRUE(batch.tokens.empty());
  EXPECT_EQ(batch.status[1].live, 3) << "also when nothing is new";
}

TEST(StreamMailbox, AReaderTooFarBehindPausesItsSequenceUntilItTakes) {
  const int64_t one = sizeof(TokenEvent);
  StreamMailbox mailbox(1, 3 * one, [] {});
  for (int32_t i = 0; i < 3; ++i) EXPECT_FALSE(mailbox.PushToken(Token(i), {}).pause) << i;
  EXPECT_TRUE(mailbox.PushToken(Token(3), {}).pause);
  EXPECT_TRUE(mailbox.PushToken(Token(4), {}).pause);
  StreamBatch batch;
  EXPECT_TRUE(mailbox.Take(&batch)) << "resume";
  EXPECT_EQ(batch.tokens.size(), 5u) << "nothing is lost";
  EXPECT_FALSE(mailbox.Take(&batch));
  EXPECT_FALSE(mailbox.PushToken(Token(5), {}).pause);
}

TEST(StreamMailbox, LogProbabilitiesCountAndTheLastTokenNeverPauses) {
  StreamMailbox mailbox(1, 1000, [] {});
  TokenEvent heavy = Token(1);
  heavy.logprobs = std::make_unique<SampleResult>();
  heavy.logprobs->top.resize(1000);
  EXPECT_TRUE(mailbox.PushToken(std::move(heavy), {}).pause);
  TokenEvent last = Token(2);
  last.finish = FinishReason::kLength;
  EXPECT_FALSE(mailbox.PushToken(std::move(last), {}).pause);
}

TEST(StreamMailbox, NoEventIsLeftWithoutAWakeUp) {
  constexpr int32_t kEvents = 20'000;
  std::atomic<int64_t> wakes = 0;
  StreamMailbox mailbox(1, int64_t{1} << 40, [&wakes] {
    ++wakes;
    wakes.notify_one();
  });
  std::thread engine([&mailbox] {
    for (int32_t i = 0; i < kEvents; ++i) {
      if (mailbox.PushToken(Token(i), {}).wake) mailbox.Wake();
    }
  });
  StreamBatch batch;
  int32_t next = 0;
  int64_t seen = 0;
  while (next < kEvents) {
    wakes.wait(seen);
    seen = wakes;
    (void)mailbox.Take(&batch);
    for (const TokenEvent& event : batch.tokens) ASSERT_EQ(event.token, next++);
  }
  engine.join();
}

}  // namespace
}  // namespace hydrant
