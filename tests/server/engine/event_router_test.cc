#include "server/engine/event_router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <span>
#include <vector>

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Fixture {
  explicit Fixture(int64_t bytes_max = 1 << 20)
      : mailbox(std::make_shared<StreamMailbox>(2, bytes_max, [] {})),
        other(std::make_shared<StreamMailbox>(1, bytes_max, [] {})),
        router([this](EventRouter::MailboxList list) { fanned_out.push_back(list.size()); }) {
    router.Add(1, {mailbox, 0, 10, false});
    router.Add(2, {mailbox, 1, 20, true});
    router.Add(3, {other, 0, 30, false});
  }
  EventRouter::Settled Deliver(std::span<const EngineEvent> events, int64_t now_us) {
    const EventRouter::Settled settled = router.Deliver(events, now_us);
    router.Flush();
    return settled;
  }

  std::shared_ptr<StreamMailbox> mailbox, other;
  std::vector<size_t> fanned_out;  // mailboxes per call
  EventRouter router;
  StreamBatch batch;
};

EngineEvent Token(uint64_t id, int32_t token, FinishReason finish = FinishReason::kNone) {
  EngineEvent event;
  event.id = id;
  event.token = token;
  event.finish = finish;
  return event;
}

TEST(EventRouter, OneFanOutPerStepWithEachMailboxOnce) {
  Fixture f;
  const EngineEvent events[] = {Token(1, 5), Token(2, 6), Token(3, 7)};
  f.Deliver(events, 99);
  EXPECT_THAT(f.fanned_out, ElementsAre(2u));
  f.Deliver(events, 100);
  EXPECT_THAT(f.fanned_out, ElementsAre(2u)) << "woken already";
  (void)f.mailbox->Take(&f.batch);
  ASSERT_EQ(f.batch.tokens.size(), 4u);
  EXPECT_EQ(f.batch.tokens[1].choice, 1);
  EXPECT_EQ(f.batch.tokens[1].token, 6);
  EXPECT_EQ(f.batch.tokens[1].time_us, 99);
}

TEST(EventRouter, PromptTokensAreSettledOnceAndSequencesAtTheirEnd) {
  Fixture f;
  const EngineEvent first[] = {Token(1, 5), Token(2, 6)};
  EventRouter::Settled settled = f.Deliver(first, 0);
  EXPECT_EQ(settled.prompt_tokens, 30);
  EXPECT_EQ(settled.sequences, 0);
  const EngineEvent second[] = {Token(1, 5, FinishReason::kLength), Token(3, -1, FinishReason::kAbort)};
  settled = f.Deliver(second, 0);
  EXPECT_EQ(settled.prompt_tokens, 30) << "of the one that was cancelled before its first token";
  EXPECT_EQ(settled.sequences, 2);
  EXPECT_THAT(f.router.OpenIds(), ElementsAre(2u));
}

class Recorder : public SequenceLedger {
 public:
  void OnAdmitted(int32_t choice) override { admitted.push_back(choice); }
  void OnEnded(int32_t choice, int32_t prompt_computed, int32_t generated) override {
    ended.push_back({choice, prompt_computed, generated});
  }
  std::vector<int32_t> admitted;
  std::vector<std::vector<int32_t>> ended;
};

TEST(EventRouter, ALedgerHearsOfAdmissionsAndOfEveryEndWithWhatWasComputed) {
  Fixture f;
  const auto ledger = std::make_shared<Recorder>();
  for (int32_t choice = 0; choice < 3; ++choice) {
    f.router.Add(10 + static_cast<uint64_t>(choice), {f.other, 0, 30, false, ledger});
  }
  const uint64_t admitted[] = {11, 1, 99};
  f.router.Admitted(admitted);
  EXPECT_THAT(ledger->admitted, ElementsAre(0)) << "choices are those of the route; unknown ids are nobody's";
  EngineEvent ends[] = {Token(10, 5), Token(11, -1, FinishReason::kAbort), Token(12, 5, FinishReason::kLength)};
  ends[1].prompt_computed = 16;
  ends[2].prompt_computed = 30;
  ends[2].generated = 4;
  f.Deliver(ends, 0);
  EXPECT_THAT(ledger->ended, ElementsAre(ElementsAre(0, 16, 0), ElementsAre(0, 30, 4)));
  f.router.Refuse(10, FinishReason::kRefused);
  EXPECT_THAT(ledger->ended.back(), ElementsAre(0, 0, 0));
}

TEST(EventRouter, AnAdapterCountsItsSequencesUntilTheyEnd) {
  Fixture f;
  const auto slot = std::make_shared<AdapterSlot>();
  for (const uint64_t id : {4, 5, 6}) f.router.Add(id, {.mailbox = f.mailbox, .adapter = AdapterUse(slot)});
  const auto counts = [&] { return std::pair<int, int>(slot->waiting, slot->running); };
  EXPECT_EQ(counts(), std::pair(3, 0));
  const uint64_t admitted[] = {1, 4, 5, 99};
  f.router.Admitted(admitted);
  EXPECT_EQ(counts(), std::pair(1, 2));
  const EngineEvent events[] = {Token(4, 1, FinishReason::kStop)};
  f.Deliver(events, 0);
  EXPECT_EQ(counts(), std::pair(1, 1));
  f.router.Refuse(6, FinishReason::kRefused);
  EXPECT_EQ(counts(), std::pair(0, 1));
  f.router.FailAll();
  EXPECT_EQ(counts(), std::pair(0, 0));
  EXPECT_EQ(slot.use_count(), 1);
}

TEST(EventRouter, LogProbabilitiesTravelOnlyWhenAskedFor) {
  Fixture f;
  SampleResult sampled;
  sampled.logprob = -3;
  EngineEvent events[] = {Token(1, 5), Token(2, 6)};
  for (EngineEvent& event : events) event.sampled = &sampled;
  f.Deliver(events, 0);
  (void)f.mailbox->Take(&f.batch);
  EXPECT_EQ(f.batch.tokens[0].logprobs, nullptr);
  ASSERT_NE(f.batch.tokens[1].logprobs, nullptr);
  EXPECT_EQ(f.batch.tokens[1].logprobs->logprob, -3);
}

// Else an audit would pause whose reader is slow sooner than others.
TEST(EventRouter, TheBestTokenTakesNoRoomInAMailbox) {
  Fixture f(/*bytes_max=*/2 * sizeof(TokenEvent));
  SampleResult sampled;
  sampled.best = 9;
  sampled.logprob = -3;
  sampled.top = {{9, -1.0f}};
  EngineEvent event = Token(1, 5);
  event.sampled = &sampled;
  EXPECT_THAT(f.Deliver({&event, 1}, 0).paused, IsEmpty());
  EXPECT_THAT(f.Deliver({&event, 1}, 0).paused, IsEmpty());
  EXPECT_THAT(f.Deliver({&event, 1}, 0).paused, ElementsAre(1u));
  (void)f.mailbox->Take(&f.batch);
  ASSERT_EQ(f.batch.tokens.size(), 3u);
  EXPECT_EQ(f.batch.tokens[0].best, 9);
  EXPECT_EQ(f.batch.tokens[0].logprob, -3);
  EXPECT_EQ(f.batch.tokens[0].logprobs, nullptr);
}

TEST(EventRouter, PromptLogProbabilitiesComeWithoutAToken) {
  Fixture f;
  const std::vector<SampleResult> results(3);
  EngineEvent event = Token(2, -1);
  event.prompt_logprobs = results;
  event.prompt_begin = 1;
  f.Deliver(std::vector{event}, 0);
  (void)f.mailbox->Take(&f.batch);
  EXPECT_THAT(f.batch.tokens, IsEmpty());
  ASSERT_EQ(f.batch.prompts.size(), 1u);
  EXPECT_EQ(f.batch.prompts[0].choice, 1);
  EXPECT_EQ(f.batch.prompts[0].begin, 1);
  EXPECT_EQ(f.batch.prompts[0].results.size(), 3u);
}

TEST(EventRouter, OnlyTheSequenceWithTheSlowReaderIsPaused) {
  Fixture f(/*bytes_max=*/sizeof(TokenEvent));
  const EngineEvent events[] = {Token(1, 5), Token(3, 7)};
  EXPECT_THAT(f.Deliver(events, 0).paused, IsEmpty());
  (void)f.other->Take(&f.batch);
  EXPECT_THAT(f.Deliver(events, 0).paused, ElementsAre(1u));
}

TEST(EventRouter, ARefusedSequenceEndsAndIsForgotten) {
  Fixture f;
  const EventRouter::Settled settled = f.router.Refuse(3, FinishReason::kRefused);
  EXPECT_EQ(settled.sequences, 1);
  EXPECT_EQ(settled.prompt_tokens, 30);
  (void)f.other->Take(&f.batch);
  ASSERT_EQ(f.batch.tokens.size(), 1u);
  EXPECT_EQ(f.batch.tokens[0].finish, FinishReason::kRefused);
  EXPECT_THAT(f.router.OpenIds(), ElementsAre(1u, 2u));
}

TEST(EventRouter, FailAllTellsEveryMailboxAndForgetsAll) {
  Fixture f;
  f.router.FailAll();
  EXPECT_THAT(f.router.OpenIds(), IsEmpty());
  EXPECT_THAT(f.fanned_out, ElementsAre(2u));
  (void)f.other->Take(&f.batch);
  EXPECT_TRUE(f.batch.failed);
}

// Without memory for the wake-up the next call makes up for it.
TEST(EventRouter, WhoCannotBeWokenIsWokenLater) {
  int left = 1;
  size_t woken = 0;
  auto mailbox = std::make_shared<StreamMailbox>(1, 1 << 20, [] {});
  EventRouter router([&](const EventRouter::MailboxList& list) {
    if (left-- > 0) throw std::bad_alloc();
    woken += list.size();
  });
  router.Add(1, {mailbox, 0, 10, false});
  const EngineEvent event = Token(1, 5);
  EXPECT_EQ(router.Deliver({&event, 1}, 0).prompt_tokens, 10);
  EXPECT_FALSE(router.Flush());
  EXPECT_EQ(woken, 0u);
  left = 1;
  EXPECT_FALSE(router.Flush());
  EXPECT_TRUE(router.Flush());
  EXPECT_EQ(woken, 1u);
  StreamBatch batch;
  (void)mailbox->Take(&batch);
  EXPECT_EQ(batch.tokens.size(), 1u);
}

TEST(EventRouter, EveryFinishReasonHasItsEnd) {
  const struct {
    FinishReason reason;
    FinishReason end;
  } cases[] = {{FinishReason::kStop, FinishReason::kStop},
               {FinishReason::kLength, FinishReason::kLength},
               {FinishReason::kAbort, FinishReason::kAbort},
               {FinishReason::kError, FinishReason::kError},
               {FinishReason::kNoMemory, FinishReason::kNoMemory}};
  for (const auto& test : cases) {
    Fixture f;
    f.Deliver(std::vector{Token(3, -1, test.reason)}, 0);
    (void)f.other->Take(&f.batch);
    ASSERT_EQ(f.batch.tokens.size(), 1u);
    EXPECT_EQ(f.batch.tokens[0].finish, test.end);
  }
}

}  // namespace
}  // namespace hydrant
