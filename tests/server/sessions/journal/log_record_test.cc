#include "server/sessions/journal/log_record.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hydrant {
namespace {

RecordHeader HeaderOf(uint64_t turn) {
  RecordHeader header;
  header.type = RecordType::kTurn;
  header.name.fill(static_cast<uint8_t>(turn));
  header.turn = turn;
  header.turn_before = turn - 1;
  header.wall_s = -5;
  header.before = {3, 1000};
  header.segment = 9;
  return header;
}

std::string SegmentOf(const std::vector<std::string>& payloads) {
  std::string bytes;
  AppendSegmentHeader(9, DirectoryId{}, &bytes);
  for (size_t i = 0; i < payloads.size(); ++i) AppendRecord(HeaderOf(i + 1), payloads[i], &bytes);
  return bytes;
}

struct Seen {
  std::vector<uint64_t> whole;
  std::vector<uint64_t> hurt;
};
Seen Scan(const std::string& bytes) {
  Seen seen;
  ScanRecords(bytes, 9, [&](const ScannedRecord& record) {
    EXPECT_EQ(record.header.before.offset, 1000u);
    (record.whole ? seen.whole : seen.hurt).push_back(record.header.turn);
  });
  return seen;
}

TEST(LogRecord, ComesBackAsItWasWritten) {
  const std::string bytes = SegmentOf({"one", "", "three"});
  std::vector<std::string> payloads;
  const int64_t lost = ScanRecords(bytes, 9, [&](const ScannedRecord& record) {
    payloads.emplace_back(record.payload);
    EXPECT_EQ(record.header.wall_s, -5);
    EXPECT_EQ(record.header.turn_before + 1, record.header.turn);
    EXPECT_EQ(bytes.substr(record.place.offset + kRecordHeaderBytes, record.payload.size()), record.payload);
  });
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(payloads, (std::vector<std::string>{"one", "", "three"}));
  EXPECT_EQ(ParseSegmentHeader(bytes)->number, 9u);
}

TEST(LogRecord, ATornTailLosesTheRecordsThatItHits) {
  const std::string bytes = SegmentOf({"one", "two", "three"});
  size_t before = 0;
  for (size_t length = kSegmentHeaderBytes; length <= bytes.size(); ++length) {
    const Seen seen = Scan(bytes.substr(0, length));
    ASSERT_GE(seen.whole.size(), before);
    for (size_t i = 0; i < seen.whole.size(); ++i) ASSERT_EQ(seen.whole[i], i + 1);
    before = seen.whole.size();
  }
  EXPECT_EQ(before, 3u);
}

TEST(LogRecord, AFlippedBitHidesNoOtherRecord) {
  const std::string whole = SegmentOf({"one", "two", "three"});
  for (size_t bit = kSegmentHeaderBytes * 8; bit < whole.size() * 8; ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_EQ(Scan(bytes).whole.size(), 2u) << bit;
  }
}

TEST(LogRecord, WhatAnEarlierFileLeftIsNoRecord) {
  const std::string bytes = SegmentOf({"one"});
  int seen = 0;
  EXPECT_GT(ScanRecords(bytes, 8, [&](const ScannedRecord&) { ++seen; }), 0);
  EXPECT_EQ(seen, 0);
}

TEST(LogRecord, FactsComeBackAndLeaveTheRest) {
  const SessionFacts facts = {"tenant", "id", -3, 7, 512, 4};
  std::string payload;
  AppendFacts(facts, &payload);
  const std::string rest = "rest";
  std::string_view left;
  for (size_t length = 0; length < payload.size(); ++length) {
    left = std::string_view(payload).substr(0, length);
    ASSERT_FALSE(TakeFacts(&left).has_value()) << length;
  }
  payload += rest;
  left = payload;
  const std::optional<SessionFacts> found = TakeFacts(&left);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->tenant, "tenant");
  EXPECT_EQ(found->id, "id");
  EXPECT_EQ(found->created_s, -3);
  EXPECT_EQ(found->tokens, 7);
  EXPECT_EQ(found->budget, 512);
  EXPECT_EQ(found->policy, 4);
  EXPECT_EQ(left, rest);
}

}  // namespace
}  // namespace hydrant
