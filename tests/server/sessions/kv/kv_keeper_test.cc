#include "server/sessions/kv/kv_keeper.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/process/clock.h"
#include "tests/server/sessions/journal/stuck_disk.h"
#include "tests/server/sessions/kv/keeping.h"
#include "tests/server/sessions/kv/kv_bytes.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

TEST_F(Keeping, ReadsBackWhatWasWritten) {
  Start();
  const KvWrite write = WriteOf(1, 5);
  EXPECT_TRUE(Keep(1, 5));
  EXPECT_EQ(Told(1), 5u);
  const KvBytes kv = ReadBack(1, 5);
  ASSERT_EQ(kv.size, write.kv.size);
  EXPECT_TRUE(std::equal(kv.bytes.get(), kv.bytes.get() + kv.size, write.kv.bytes.get()));
  EXPECT_EQ(kv.computed, write.kv.computed);
  EXPECT_EQ(kv.live, kLive);
  EXPECT_FALSE(Has(1, 4)) << "an older turn";
  EXPECT_FALSE(Has(2, 5));
  EXPECT_TRUE(Keep(1, 6));
  EXPECT_THAT(Files(), testing::ElementsAre(KvFileName(BindingOf(1, 6).session, 6))) << "one file for a session";
  const KvCounts counts = keeper_->counts();
  EXPECT_EQ(counts.writes, 2u);
  EXPECT_EQ(counts.reads, 1u);
  EXPECT_EQ(counts.files, 1);
  EXPECT_EQ(counts.errors, 0u);
  EXPECT_EQ(counts.bytes, static_cast<int64_t>(std::filesystem::file_size(path_ + "/" + Files().front())));
  struct stat status {};
  ASSERT_EQ(stat((path_ + "/" + Files().front()).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(Keeping, SaysWhyItDoesNotReadAFile) {
  Start();
  EXPECT_TRUE(Keep(1, 5));
  const auto open = [&](const KvBinding& expected) {
    return keeper_->Open(BindingOf(1, 5).session, 5, [&] { return expected; }) != nullptr;
  };
  KvBinding other = BindingOf(1, 5);
  other.tokens[0] ^= 1;
  EXPECT_FALSE(open(other));
  EXPECT_EQ(Rejected(KvReject::kTokens), 1u);
  other = BindingOf(1, 5);
  other.policy[0] ^= 1;
  EXPECT_FALSE(open(other));
  EXPECT_EQ(Rejected(KvReject::kPolicy), 1u);
  // Another session's file under this one's name.
  EXPECT_TRUE(Keep(2, 5));
  std::filesystem::rename(path_ + "/" + KvFileName(BindingOf(2, 5).session, 5),
                          path_ + "/" + KvFileName(BindingOf(1, 5).session, 5));
  EXPECT_FALSE(open(BindingOf(1, 5)));
  EXPECT_EQ(Rejected(KvReject::kSession), 1u);
  // A byte of the payload.
  EXPECT_TRUE(Keep(3, 5));
  const std::string path = path_ + "/" + KvFileName(BindingOf(3, 5).session, 5);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(9000) << "x";
  EXPECT_FALSE(Has(3, 5));
  EXPECT_EQ(Rejected(KvReject::kDamaged), 1u);
  // Who else may read it may have written it.
  EXPECT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_FALSE(Has(3, 5));
  EXPECT_EQ(Rejected(KvReject::kIo), 1u);
  EXPECT_EQ(keeper_->counts().reads, 0u) << "none of these counts as read";
}

TEST_F(Keeping, TakesNoMoreThanItMay) {
  const int64_t bytes = TinyHeader(kLive).file_bytes();
  bytes_max_ = 3 * bytes + 10;
  Open();
  Start();
  for (uint8_t session = 1; session <= 5; ++session) EXPECT_TRUE(Keep(session, 1, session == 1 ? "b" : "a"));
  EXPECT_EQ(keeper_->counts().files, 3);
  EXPECT_EQ(keeper_->counts().evicted, 2u);
  EXPECT_TRUE(Has(1, 1)) << "the oldest, of a tenant within its share";
  EXPECT_FALSE(Has(2, 1));
  EXPECT_EQ(Told(2), 0u);
  // A smaller limit at the next start.
  keeper_.reset();
  bytes_max_ = bytes + 10;
  Open();
  Start();
  EXPECT_TRUE(swept_.get_future().get());
  EXPECT_EQ(keeper_->counts().files, 1);
  bytes_max_ = bytes - 1;
  Open();
  Start();
  EXPECT_FALSE(Keep(6, 1)) << "larger than all there may be";
  EXPECT_EQ(keeper_->counts().passed, 1u);
}

TEST_F(Keeping, WritesNothingOfWhatIsForgottenOrHasGoneOn) {
  std::promise<bool> forgotten, gone_on, stays;
  keeper_->Write(WriteOf(1, 5), false, [&](bool durable) { forgotten.set_value(durable); });
  keeper_->Write(WriteOf(2, 5), false, [&](bool durable) { gone_on.set_value(durable); });
  keeper_->Write(WriteOf(3, 5), false, [&](bool durable) { stays.set_value(durable); });
  log_.erase(BindingOf(1, 5).session);
  log_[BindingOf(2, 5).session].turn = 6;
  Start();
  EXPECT_FALSE(forgotten.get_future().get());
  EXPECT_FALSE(gone_on.get_future().get());
  EXPECT_TRUE(stays.get_future().get());
  keeper_->Supersede(BindingOf(3, 5).session, 5);
  EXPECT_TRUE(Has(3, 5));
  keeper_->Supersede(BindingOf(3, 5).session, 6);
  EXPECT_TRUE(Keep(4, 1));  // behind it
  EXPECT_FALSE(Has(3, 5));
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(Keeping, ARemovalTakesAlongWhatWaits) {
  std::promise<bool> written;
  keeper_->Write(WriteOf(1, 5), false, [&](bool durable) { written.set_value(durable); });
  std::promise<bool> gone;
  keeper_->Remove(BindingOf(1, 5).session, [&](bool all) { gone.set_value(all); });
  Start();
  EXPECT_TRUE(gone.get_future().get());
  EXPECT_FALSE(written.get_future().get());
  EXPECT_EQ(Files().size(), 0u);
}

TEST_F(Keeping, WhatCannotBeRemovedIsToldAndTriedAgain) {
  StuckDisk disk;
  retry_us_ = 0;
  Open(std::make_unique<StuckDirectory>(DiskDirectory(open(path_.c_str(), O_RDONLY | O_DIRECTORY)), disk));
  Start();
  const SessionName first = BindingOf(1, 5).session;
  for (uint8_t session = 1; session <= 2; ++session) EXPECT_TRUE(Keep(session, 5));
  disk.Hang(StuckDisk::Stuck::kRemovesFail);
  for (uint8_t session = 1; session <= 2; ++session) EXPECT_FALSE(Remove(session));
  EXPECT_FALSE(Remove(1)) << "whenever it is asked for";
  EXPECT_TRUE(keeper_->HasLeft(first));
  EXPECT_EQ(keeper_->counts().errors, 2u);
  EXPECT_EQ(Files().size(), 2u);
  // A session of the same name, and a turn of the same number.
  EXPECT_TRUE(Keep(2, 5));
  EXPECT_FALSE(keeper_->HasLeft(BindingOf(2, 5).session));
  disk.Hang(StuckDisk::Stuck::kNothing);
  keeper_->Wake();
  looks_.get_future().wait();
  EXPECT_FALSE(keeper_->HasLeft(first)) << "also when nobody asks";
  EXPECT_EQ(Files().size(), 1u);
  EXPECT_TRUE(Has(2, 5));
  EXPECT_TRUE(Remove(1));
}

TEST_F(Keeping, WhatIsTooMuchIsNotDoneAndStopAnswersAll) {
  const auto bytes = static_cast<int64_t>(WriteOf(1, 1).kv.size);
  waiting_bytes_max_ = 2 * bytes;
  Open();
  int told = 0;
  const auto counts = [&](bool durable) { told += durable ? 100 : 1; };
  EXPECT_TRUE(keeper_->has_room());
  for (uint8_t session = 1; session <= 2; ++session) keeper_->Write(WriteOf(session, 1), false, counts);
  EXPECT_FALSE(keeper_->has_room());
  EXPECT_EQ(told, 0);
  keeper_->Write(WriteOf(3, 1), false, counts);
  EXPECT_EQ(told, 1) << "at once";
  keeper_->Write(WriteOf(4, 1), true, counts);
  EXPECT_EQ(told, 1) << "who waits hears it on the writing thread";
  EXPECT_EQ(keeper_->counts().passed, 2u);
  keeper_->Stop();
  EXPECT_EQ(told, 4);
  keeper_->Write(WriteOf(5, 1), true, counts);
  EXPECT_EQ(told, 5);
}

TEST_F(Keeping, ADiskThatDoesNotWriteIsLeftAloneForAWhile) {
  Start();
  EXPECT_TRUE(Keep(1, 1));
  std::filesystem::remove_all(path_);
  EXPECT_FALSE(Keep(2, 1));
  const KvCounts counts = keeper_->counts();
  EXPECT_EQ(counts.errors, 1u);
  EXPECT_FALSE(Keep(3, 1));
  EXPECT_EQ(keeper_->counts().errors, 1u) << "it is not asked";
  EXPECT_FALSE(Has(1, 1)) << "nor is a wrong answer given";
}

// What nobody waits for takes its time, but not that of somebody who does.
TEST_F(Keeping, WhatNobodyWaitsForIsWrittenNoFasterThanItMay) {
  const auto bytes = static_cast<int64_t>(WriteOf(1, 1).kv.size);
  const auto write_behind = [this](uint8_t session, std::promise<bool>* kept) {
    keeper_->Write(WriteOf(session, 1), /*urgent=*/false, [kept](bool durable) { kept->set_value(durable); });
  };
  bytes_per_s_ = bytes * 5;  // 0.2 s each
  Open();
  Start();
  std::promise<bool> first, second;
  const int64_t began_us = MonotonicUs();
  write_behind(1, &first);
  EXPECT_TRUE(first.get_future().get());
  EXPECT_GE(MonotonicUs() - began_us, 190'000);
  keeper_->Stop();
  bytes_per_s_ = bytes / 100;  // 100 s each
  Open();
  Start();
  write_behind(2, &second);
  // What is urgent goes before it, or has it made haste.
  std::future<bool> written = second.get_future();
  for (uint8_t next = 3; written.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready; ++next) {
    EXPECT_TRUE(Keep(next, 1));
    ASSERT_LT(next, 200);
  }
  EXPECT_TRUE(written.get());
  EXPECT_LT(MonotonicUs() - began_us, 60'000'000);
}

TEST_F(Keeping, LooksWhenItIsTold) {
  Start();
  keeper_->Wake();
  looks_.get_future().wait();
}

}  // namespace
}  // namespace hydrant
