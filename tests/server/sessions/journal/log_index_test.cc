#include "server/sessions/journal/log_index.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/sessions/journal/byte_codec.h"
#include "server/sessions/journal/crc32c.h"

namespace hydrant {
namespace {

RecordHeader At(RecordType type, uint64_t turn, LogPlace before = {}) {
  RecordHeader header;
  header.type = type;
  header.name.fill(1);
  header.turn = turn;
  header.turn_before = turn - 1;
  header.before = before;
  header.payload_bytes = 10;
  header.wall_s = 77;
  return header;
}

class LogIndexTest : public testing::Test {
 protected:
  using Applied = LogIndex::Applied;
  const LoggedSession* Found() const { return index_.Find(At(RecordType::kTurn, 1).name); }
  LogIndex index_;
};

TEST_F(LogIndexTest, AChainTakesWhatGoesOnFromItsEnd) {
  EXPECT_EQ(index_.Apply(At(RecordType::kTurn, 2, {1, 36}), {1, 100}, {}), Applied::kOrphan);
  EXPECT_EQ(index_.Apply(At(RecordType::kReplace, 1), {1, 36}, {}), Applied::kYes);
  EXPECT_EQ(index_.Apply(At(RecordType::kTurn, 2, {1, 37}), {1, 200}, {}), Applied::kOrphan) << "from elsewhere";
  EXPECT_EQ(index_.Apply(At(RecordType::kTurn, 3, {1, 36}), {1, 200}, {}), Applied::kOrphan) << "from another turn";
  EXPECT_EQ(index_.Apply(At(RecordType::kTurn, 2, {1, 36}), {1, 200}, {}), Applied::kYes);
  EXPECT_EQ(Found()->records, 2u);
  EXPECT_EQ(Found()->bytes, 2 * (kRecordHeaderBytes + 10));
  // Written again after a sync that failed; the turn after it goes on from there.
  EXPECT_EQ(index_.Apply(At(RecordType::kTurn, 2, {1, 36}), {2, 36}, {}), Applied::kYes);
  EXPECT_EQ(Found()->records, 2u);
  EXPECT_EQ(Found()->last, (LogPlace{2, 36}));
  EXPECT_EQ(index_.Apply(At(RecordType::kTurn, 3, {2, 36}), {2, 90}, {}), Applied::kYes);
  EXPECT_EQ(index_.Apply(At(RecordType::kReplace, 4), {3, 36}, {}), Applied::kYes);
  EXPECT_EQ(index_.bytes(), static_cast<int64_t>(kRecordHeaderBytes + 10));
}

TEST_F(LogIndexTest, AnEndMarksTheSegmentsThatHaveSomethingOfIt) {
  index_.Apply(At(RecordType::kReplace, 1), {1, 36}, {});
  index_.Apply(At(RecordType::kTurn, 2, {1, 36}), {3, 36}, {});
  EXPECT_EQ(index_.Apply(At(RecordType::kForget, 3), {3, 99}, {}), Applied::kYes);
  EXPECT_EQ(Found(), nullptr);
  EXPECT_EQ(index_.bytes(), 0);
  const ForgottenIn one = {77, {At(RecordType::kForget, 3).name}};
  EXPECT_EQ(index_.forgotten(), (std::map<uint32_t, ForgottenIn>{{1, one}, {3, one}})) << "and none between";
}

// Numbers are used up by a disk that is full for a day.
TEST_F(LogIndexTest, WhatIsNoSegmentIsKeptInMindNowhere) {
  index_.Apply(At(RecordType::kReplace, 1), {1, 36}, {});
  index_.Apply(At(RecordType::kTurn, 2, {1, 36}), {17000, 36}, {});
  index_.Apply(At(RecordType::kTurn, 3, {17000, 36}), {17001, 36}, {});
  EXPECT_EQ(Found()->left_in, (std::vector<uint32_t>{1, 17000}));
  EXPECT_TRUE(index_.HasChainIn(17000));
  EXPECT_FALSE(index_.HasChainIn(300));
  RecordHeader other = At(RecordType::kReplace, 1);
  other.name.fill(2);
  index_.Apply(other, {17001, 99}, {});
  other.type = RecordType::kForget;
  index_.Apply(other, {17002, 36}, {});
  // The start finds less than the checkpoint speaks of.
  index_.KeepSegments({17000, 17002});
  EXPECT_EQ(Found()->left_in, (std::vector<uint32_t>{17000}));
  EXPECT_TRUE(index_.forgotten().empty());
}

TEST_F(LogIndexTest, AnEndMarksWhereItsSessionWasBeforeForAsLongAsTheSegmentIsThere) {
  index_.Apply(At(RecordType::kReplace, 1), {1, 36}, {});
  index_.Apply(At(RecordType::kReplace, 1), {2, 36}, {});
  index_.Apply(At(RecordType::kReplace, 1), {5, 36}, {});
  EXPECT_EQ(Found()->left_in, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(index_.LeftIn(1), std::vector<SessionName>{At(RecordType::kReplace, 1).name});
  EXPECT_EQ(index_.LeftIn(5), std::vector<SessionName>());
  index_.DropSegment(1, index_.LeftIn(1));
  const DirectoryId directory{};
  index_ = *LogIndex::FromCheckpoint(index_.Checkpoint(6, directory), 6, directory);
  index_.Apply(At(RecordType::kForget, 2), {6, 36}, {});
  const ForgottenIn one = {77, {At(RecordType::kForget, 2).name}};
  EXPECT_EQ(index_.forgotten(), (std::map<uint32_t, ForgottenIn>{{2, one}, {5, one}}));
}

TEST_F(LogIndexTest, ACheckpointOfAnOlderVersionSaysWhatItKnew) {
  index_.Apply(At(RecordType::kReplace, 4), {1, 36}, {});
  std::string bytes = index_.Checkpoint(12, DirectoryId{});
  bytes.resize(bytes.size() - 5);  // that it has left nothing, and the checksum
  bytes[7] = '1';
  PutFixed(Crc32c(bytes), &bytes);
  const std::optional<LogIndex> read = LogIndex::FromCheckpoint(bytes, 12, DirectoryId{});
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->sessions().begin()->second.turn, 4u);
  EXPECT_TRUE(read->knows_chains_alone());
}

TEST_F(LogIndexTest, WhatIsUnknownIsSkippedOrMakesItsSessionUnreadable) {
  index_.Apply(At(RecordType::kReplace, 1), {1, 36}, {});
  RecordHeader later = At(static_cast<RecordType>(99), 1);
  later.flags = 0;
  index_.Apply(later, {1, 50}, {});
  EXPECT_FALSE(Found()->unreadable);
  later.flags = kRecordRequired;
  index_.Apply(later, {1, 60}, {});
  EXPECT_TRUE(Found()->unreadable);
}

TEST_F(LogIndexTest, ACheckpointIsWholeOrNone) {
  index_.Apply(At(RecordType::kReplace, 1), {1, 36}, {"tenant", "id", 5, 6, 7, 8});
  RecordHeader other = At(RecordType::kReplace, 4);
  other.name.fill(2);
  index_.Apply(other, {1, 99}, {});
  other.type = RecordType::kForget;
  index_.Apply(other, {1, 199}, {});
  DirectoryId directory{};
  const std::string bytes = index_.Checkpoint(12, directory);
  const std::optional<LogIndex> read = LogIndex::FromCheckpoint(bytes, 12, directory);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->Checkpoint(12, directory), bytes);
  EXPECT_EQ(read->sessions().begin()->second.facts.tokens, 6);
  EXPECT_EQ(read->forgotten(), index_.forgotten());
  EXPECT_FALSE(LogIndex::FromCheckpoint(bytes, 13, directory).has_value());
  directory.fill(1);
  EXPECT_FALSE(LogIndex::FromCheckpoint(bytes, 12, directory).has_value());
  directory.fill(0);
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string hurt = bytes;
    hurt[at] = static_cast<char>(hurt[at] ^ 4);
    ASSERT_FALSE(LogIndex::FromCheckpoint(hurt, 12, directory).has_value()) << at;
    ASSERT_FALSE(LogIndex::FromCheckpoint(bytes.substr(0, at), 12, directory).has_value()) << at;
  }
}

}  // namespace
}  // namespace hydrant
