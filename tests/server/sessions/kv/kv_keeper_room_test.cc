#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>

#include "server/sessions/kv/kv_keeper.h"
#include "tests/server/sessions/journal/model_disk.h"
#include "tests/server/sessions/kv/keeping.h"
#include "tests/server/sessions/kv/kv_bytes.h"

namespace hydrant {
namespace {

// Files on a volume that has other files too. The keeper's thread is alone with the disk while anything is asked of it.
class KeepingOnAVolume : public Keeping {
 protected:
  void TearDown() override { keeper_.reset(); }  // before the disk
  void OpenVolume(int64_t files) {
    keeper_.reset();
    disk_.volume_bytes = files * file_bytes_ + 100;
    free_bytes_min_ = 4 * file_bytes_;
    Open(disk_.Mount());
    Start();
    EXPECT_TRUE(swept_.get_future().get());
  }
  void Others(int64_t files) {
    disk_.names["others"] = std::make_shared<ModelDisk::File>();
    disk_.names["others"]->bytes.resize(static_cast<size_t>(files * file_bytes_));
  }
  void Look() {
    looks_ = {};
    keeper_->Wake();
    looks_.get_future().wait();
  }
  int64_t KvFiles() const { return keeper_->counts().files; }

  const int64_t file_bytes_ = TinyHeader(kLive).file_bytes();
  ModelDisk disk_;
};

TEST_F(KeepingOnAVolume, FilesReplaceOthersWhereTheLogWouldHaveTooLittleRoom) {
  OpenVolume(10);
  for (uint8_t session = 1; session <= 8; ++session) EXPECT_TRUE(Keep(session, 1));
  EXPECT_EQ(KvFiles(), 6) << "of ten";
  EXPECT_EQ(keeper_->counts().evicted, 2u);
  EXPECT_EQ(Told(2), 0u) << "the one used least recently";
  EXPECT_EQ(Told(3), 1u);
  // Somebody else has more of it now: none goes at once for more than the one that comes.
  Others(3);
  EXPECT_TRUE(Keep(9, 1));
  EXPECT_EQ(KvFiles(), 6);
  Look();
  EXPECT_EQ(KvFiles(), 3) << "what the log has to have is free again";
  EXPECT_EQ(Told(9), 1u);
  // File systems that say late what is free do not lose the rest meanwhile.
  Others(4);
  Look();
  EXPECT_EQ(KvFiles(), 3);
}

TEST_F(KeepingOnAVolume, AVolumeThatHasNoMoreThanTheLogsPartTakesNone) {
  OpenVolume(4);
  EXPECT_FALSE(Keep(1, 1));
  EXPECT_EQ(keeper_->counts().passed, 1u);
  EXPECT_EQ(keeper_->counts().errors, 0u) << "it was not tried";
  EXPECT_TRUE(disk_.names.empty());
}

TEST_F(KeepingOnAVolume, AStartGivesBackWhatTheLogHasToHave) {
  OpenVolume(10);
  for (uint8_t session = 1; session <= 5; ++session) EXPECT_TRUE(Keep(session, 1));
  OpenVolume(7);
  EXPECT_EQ(KvFiles(), 3);
  Others(7);
  OpenVolume(7);
  EXPECT_EQ(KvFiles(), 0);
}

TEST_F(KeepingOnAVolume, WhatComesFromElsewhereMayHaveHalfOfTheLogsPartWhileItComes) {
  OpenVolume(4);
  KvOutcome why = KvOutcome::kTaken;
  EXPECT_EQ(keeper_->Receive(BindingOf(1, 1), 3 * file_bytes_, &why), nullptr);
  EXPECT_EQ(why, KvOutcome::kNoRoom);
  EXPECT_NE(keeper_->Receive(BindingOf(1, 1), 2 * file_bytes_, &why), nullptr);
}

}  // namespace
}  // namespace hydrant
