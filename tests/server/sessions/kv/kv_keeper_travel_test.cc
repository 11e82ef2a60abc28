// KV that comes from another server, and how it becomes the keeper's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/server/sessions/kv/keeping.h"

namespace hydrant {
namespace {

class KeepingElsewhere : public Keeping {};

TEST_F(KeepingElsewhere, WhatCameFromElsewhereIsItsOwnWhereTheLogKnowsTheTurn) {
  std::ofstream(path_ + "/" + KvFileName(BindingOf(1, 5).session, 5) + ".0.1.kv.tmp") << "left by a process that ended";
  KvOutcome why = KvOutcome::kTaken;
  const std::unique_ptr<KvIncoming> early = keeper_->Receive(BindingOf(2, 1), 1, &why);
  ASSERT_NE(early, nullptr) << "before the sweep, which passes it over";
  KvFileHeader sent = TinyHeader(kLive);
  sent.format.directory = {};
  sent.binding.session = {};
  sent.binding.turn = 5;
  std::vector<std::byte> payload(static_cast<size_t>(sent.payload_bytes()));
  const std::string file = FileOf(sent, payload);
  std::unique_ptr<KvIncoming> begun = keeper_->Receive(BindingOf(1, 5), std::ssize(file), &why);
  EXPECT_EQ(begun->Take(std::string_view(file).substr(0, 3 * kKvHeaderBytes)), KvReject::kNone);
  ASSERT_EQ(Files().size(), 2u);
  Start();
  EXPECT_TRUE(swept_.get_future().get());
  EXPECT_EQ(Files().size(), 1u) << "what has begun to come is nobody's leavings";
  begun.reset();
  KvOutcome outcome = KvOutcome::kTaken;
  const auto come = [&] {
    std::shared_ptr<KvIncoming> incoming = keeper_->Receive(BindingOf(1, 5), std::ssize(file), &why);
    EXPECT_EQ(incoming->Take(file), KvReject::kNone);
    EXPECT_EQ(incoming->Finish(), KvReject::kNone);
    KvWrite write;
    write.binding = BindingOf(1, 5);
    write.tenant = "t";
    write.received = std::move(incoming);
    const auto said = std::make_shared<KvOutcome>(KvOutcome::kTaken);
    write.outcome = said;
    std::promise<bool> kept;
    keeper_->Write(std::move(write), /*urgent=*/true, [&](bool durable) { kept.set_value(durable); });
    const bool durable = kept.get_future().get();
    outcome = *said;
    return durable;
  };
  EXPECT_FALSE(come()) << "there is no such session";
  EXPECT_EQ(outcome, KvOutcome::kWentOn);
  EXPECT_THAT(Files(), testing::IsEmpty());
  (void)WriteOf(1, 5);  // which the log knows
  EXPECT_TRUE(come());
  EXPECT_EQ(Told(1), 5u);
  EXPECT_TRUE(Has(1, 5));
  EXPECT_EQ(outcome, KvOutcome::kTaken);
  EXPECT_EQ(keeper_->counts().files, 1);
  EXPECT_EQ(keeper_->counts().written_bytes, payload.size());
  EXPECT_EQ(keeper_->Receive(BindingOf(1, 6), bytes_max_ + 1, &why), nullptr) << "more than there is room for";
  EXPECT_EQ(why, KvOutcome::kNoRoom);
}

TEST_F(KeepingElsewhere, WhatIsAnnouncedKeepsNobodyOutAndWhatComesDoes) {
  reading_bytes_max_ = 100'000;
  Open();
  Start();
  KvFileHeader sent = TinyHeader(kLive);
  sent.format.directory = {};
  sent.binding.session = {};
  const std::string file = FileOf(sent, std::vector<std::byte>(static_cast<size_t>(sent.payload_bytes())));
  ASSERT_LT(std::ssize(file), 50'000);
  KvOutcome why = KvOutcome::kTaken;
  const auto begin = [&](uint8_t session, int64_t bytes) {
    return keeper_->Receive(BindingOf(session, sent.binding.turn), bytes, &why);
  };
  std::vector<std::unique_ptr<KvIncoming>> all;
  all.push_back(begin(1, 90'000));  // and sends nothing
  for (uint8_t session = 2; session < 20; ++session) {
    std::unique_ptr<KvIncoming> next = begin(session, std::ssize(file));
    if (next == nullptr) break;
    EXPECT_EQ(next->Take(file), KvReject::kNone) << int(session);
    all.push_back(std::move(next));
  }
  EXPECT_EQ(why, KvOutcome::kBusy);
  EXPECT_EQ(std::ssize(all), 1 + 100'000 / std::ssize(file));
  EXPECT_EQ(all.front()->Take(file), KvReject::kBusy) << "it comes too late";
  all.clear();
  EXPECT_EQ(begin(1, 99'000)->Take(file), KvReject::kNone);
}

}  // namespace
}  // namespace hydrant
