#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/sessions/journal/session_log.h"
#include "tests/server/sessions/journal/model_disk.h"

namespace hydrant {
namespace {

using testing::ElementsAre;

class SessionLogClean : public testing::Test {
 protected:
  static SessionName NameOf(std::string_view, std::string_view id) {
    SessionName name{};
    std::copy_n(id.begin(), std::min(id.size(), name.size()), name.begin());
    return name;
  }
  static std::unique_ptr<SessionLog> Open(ModelDisk& disk, int64_t purge_s = 3600) {
    SessionLogOptions options;
    options.name_of = NameOf;
    options.segment_bytes = 4000;
    options.purge_s = purge_s;
    auto log = SessionLog::Open(disk.Mount(), std::move(options));
    EXPECT_TRUE(log.ok()) << log.status();
    return *std::move(log);
  }
  static bool Put(SessionLog& log, const std::string& id, uint64_t turn, RecordType type, const std::string& body,
                  int64_t wall_s = 1000) {
    LogRecord record;
    record.type = type;
    record.name = NameOf("", id);
    record.turn = turn;
    record.turn_before = turn - 1;
    record.wall_s = wall_s;
    if (type != RecordType::kForget) record.facts.id = id;
    record.body = body;
    return log.Write(std::vector{record}, 0).front();
  }
  static void CleanAll(SessionLog& log, int64_t now_s) {
    for (int i = 0; i < 1000 && log.Clean(now_s); ++i) {
    }
  }

  ModelDisk disk_;
};

TEST_F(SessionLogClean, WhatWasForgottenLeavesTheDirectoryAnHourLater) {
  auto log = Open(disk_);
  ASSERT_TRUE(Put(*log, "gone", 1, RecordType::kReplace, "a canary of that session"));
  ASSERT_TRUE(Put(*log, "stays", 1, RecordType::kReplace, "one"));
  ASSERT_TRUE(Put(*log, "stays", 2, RecordType::kTurn, "two"));
  ASSERT_TRUE(Put(*log, "gone", 2, RecordType::kForget, "", 1000));
  CleanAll(*log, 1000 + 3599);
  EXPECT_TRUE(disk_.Contains("a canary"));
  CleanAll(*log, 1000 + 3600);
  EXPECT_FALSE(disk_.Contains("a canary"));
  EXPECT_THAT(log->Read(NameOf("", "stays"))->bodies, ElementsAre("one", "two"));
  EXPECT_TRUE(Put(*log, "stays", 3, RecordType::kTurn, "three"));
  log = Open(disk_);
  EXPECT_THAT(log->Read(NameOf("", "stays"))->bodies, ElementsAre("one", "two", "three"));
  EXPECT_EQ(log->counts().sessions, 1);
}

TEST_F(SessionLogClean, NothingForgottenComesBackWithoutACheckpoint) {
  auto log = Open(disk_, /*purge_s=*/0);
  ASSERT_TRUE(Put(*log, "old", 1, RecordType::kReplace, std::string(5000, 'o')));  // a segment
  ASSERT_TRUE(Put(*log, "gone", 1, RecordType::kReplace, std::string(100, 'g')));
  ASSERT_TRUE(Put(*log, "old", 2, RecordType::kForget, ""));
  ASSERT_TRUE(Put(*log, "gone", 2, RecordType::kForget, ""));
  // The older segment cannot be removed, so that the record of the end is needed.
  disk_.failure = -EIO;
  for (int i = 0; i < 100 && log->Clean(2000); ++i) disk_.fail_at = i % 2 == 0 ? disk_.calls + 1 : -1;
  disk_.fail_at = -1;
  CleanAll(*log, 2000);
  log.reset();
  std::erase_if(disk_.names, [](const auto& named) { return named.first.ends_with(".idx"); });
  log = Open(disk_, 0);
  EXPECT_EQ(log->counts().sessions, 0);
}

TEST_F(SessionLogClean, ALogOfMostlyDeadRecordsGetsSmaller) {
  auto log = Open(disk_);
  ASSERT_TRUE(Put(*log, "quiet", 1, RecordType::kReplace, "said once"));
  for (uint64_t turn = 1; turn <= 100; ++turn) {
    ASSERT_TRUE(Put(*log, "edits", turn, RecordType::kReplace, std::string(1000, 'e')));
    log->Clean(1000);
    log->Clean(1000);
    log->Clean(1000);
  }
  EXPECT_LT(log->counts().bytes, 5 * 4000);
  EXPECT_THAT(log->Read(NameOf("", "quiet"))->bodies, ElementsAre("said once"));
  log = Open(disk_);
  EXPECT_THAT(log->Read(NameOf("", "quiet"))->bodies, ElementsAre("said once"));
  EXPECT_EQ(log->Read(NameOf("", "edits"))->session.turn, 100u);
}

TEST_F(SessionLogClean, ASegmentWithWhatCannotBeReadStays) {
  auto log = Open(disk_, 0);
  ASSERT_TRUE(Put(*log, "gone", 1, RecordType::kReplace, "canary"));
  ASSERT_TRUE(Put(*log, "hurt", 1, RecordType::kReplace, "hurt"));
  ASSERT_TRUE(Put(*log, "gone", 2, RecordType::kForget, ""));
  std::string& bytes = disk_.names.begin()->second->bytes;
  bytes[bytes.find("hurt", bytes.find("hurt") + 4)] ^= 1;
  CleanAll(*log, 2000);
  EXPECT_TRUE(disk_.Contains("canary"));
  EXPECT_TRUE(Put(*log, "new", 1, RecordType::kReplace, "n"));
}

// Whichever read finds no memory, what it had taken on is listed anew.
TEST_F(SessionLogClean, WithoutMemoryNothingIsLost) {
  int failed = 0;
  for (int64_t read = 0; read < 20; ++read) {
    ModelDisk disk;
    auto log = Open(disk, 0);
    for (const std::string id : {"one", "two", "gone", "three"}) {
      ASSERT_TRUE(Put(*log, id, 1, RecordType::kReplace, "said in " + id));
    }
    ASSERT_TRUE(Put(*log, "gone", 2, RecordType::kForget, ""));
    disk.no_memory_at = disk.reads + read;
    for (int i = 0; i < 100; ++i) {
      try {
        if (!log->Clean(2000)) break;
      } catch (const std::bad_alloc&) {
        ++failed;
        // Whoever goes on meanwhile goes on from what the index knows.
        ASSERT_TRUE(Put(*log, "two", 2, RecordType::kTurn, "more"));
      }
    }
    disk.no_memory_at = -1;
    CleanAll(*log, 2000);
    EXPECT_FALSE(disk.Contains("said in gone")) << read;
    for (int start = 0; start < 2; ++start) {
      for (const char* id : {"one", "two", "three"}) {
        const absl::StatusOr<LoggedPast> past = log->Read(NameOf("", id));
        ASSERT_TRUE(past.ok()) << id << " after read " << read << ", start " << start << ": " << past.status();
        EXPECT_EQ(past->bodies.front(), std::string("said in ") + id);
      }
      log.reset();
      log = Open(disk, 0);
    }
  }
  EXPECT_GT(failed, 3);
}

TEST_F(SessionLogClean, ASegmentThatCannotBeRemovedIsNotTakenForRemoved) {
  auto log = Open(disk_, 0);
  ASSERT_TRUE(Put(*log, "gone", 1, RecordType::kReplace, "canary" + std::string(5000, 'g')));
  ASSERT_TRUE(Put(*log, "stays", 1, RecordType::kReplace, "s"));
  ASSERT_TRUE(Put(*log, "gone", 2, RecordType::kForget, ""));
  disk_.keeps_names = true;
  CleanAll(*log, 2000);
  EXPECT_TRUE(log->HasForgotten(NameOf("", "gone"), log->newest_segment()));
  EXPECT_GT(log->counts().errors, 0);
  disk_.keeps_names = false;
  log->TryStuckAgain(NameOf("", "gone"));
  CleanAll(*log, 2000);
  EXPECT_FALSE(log->HasForgotten(NameOf("", "gone"), log->newest_segment()));
  EXPECT_FALSE(disk_.Contains("canary"));
}

TEST_F(SessionLogClean, ASegmentThatStaysHoldsUpNoOther) {
  auto log = Open(disk_, 0);
  ASSERT_TRUE(Put(*log, "gone", 1, RecordType::kReplace, "canary"));
  ASSERT_TRUE(Put(*log, "hurt", 1, RecordType::kReplace, "hurt" + std::string(5000, 'h')));
  ASSERT_TRUE(Put(*log, "other", 1, RecordType::kReplace, "the other's"));
  ASSERT_TRUE(Put(*log, "gone", 2, RecordType::kForget, ""));
  ASSERT_TRUE(Put(*log, "other", 2, RecordType::kForget, ""));
  std::string& bytes = disk_.names.begin()->second->bytes;
  bytes[bytes.find("hurth")] ^= 1;
  CleanAll(*log, 2000);
  EXPECT_TRUE(disk_.Contains("canary"));
  EXPECT_FALSE(disk_.Contains("the other's"));
}

TEST_F(SessionLogClean, NothingOfASessionStaysWhereItWasMovedFromOrReplaced) {
  auto log = Open(disk_, 0);
  ASSERT_TRUE(Put(*log, "gone", 1, RecordType::kReplace, "g"));
  ASSERT_TRUE(Put(*log, "moved", 1, RecordType::kReplace, "the first" + std::string(5000, 'm')));
  ASSERT_TRUE(Put(*log, "moved", 2, RecordType::kTurn, "the second"));
  ASSERT_TRUE(Put(*log, "edited", 1, RecordType::kReplace, "as it was" + std::string(5000, 'e')));
  ASSERT_TRUE(Put(*log, "gone", 2, RecordType::kForget, ""));
  CleanAll(*log, 2000);
  EXPECT_TRUE(disk_.Contains("the second"));
  ASSERT_TRUE(Put(*log, "edited", 2, RecordType::kReplace, "as it is"));
  // As well after a start from the checkpoint.
  log->Checkpoint();
  log = Open(disk_, 0);
  ASSERT_TRUE(Put(*log, "moved", 3, RecordType::kForget, ""));
  ASSERT_TRUE(Put(*log, "edited", 3, RecordType::kForget, ""));
  CleanAll(*log, 2000);
  for (const char* text : {"the first", "the second", "as it was", "as it is"})
    EXPECT_FALSE(disk_.Contains(text)) << text;
}

}  // namespace
}  // namespace hydrant
