#include "server/sessions/journal/session_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/sessions/journal/byte_codec.h"
#include "server/sessions/journal/crc32c.h"
#include "tests/server/sessions/journal/model_disk.h"

namespace hydrant {
namespace {

using testing::ElementsAre;

constexpr int32_t kSessions = 5;

SessionName TestName(std::string_view tenant, std::string_view id) {
  SessionName name{};
  std::string text = std::string(tenant) + "/" + std::string(id);
  text.resize(name.size(), '.');
  std::copy(text.begin(), text.end(), name.begin());
  return name;
}

SessionLogOptions TestOptions() {
  SessionLogOptions options;
  options.directory.fill(7);
  options.name_of = TestName;
  options.segment_bytes = 1500;
  options.purge_s = 0;
  options.retry_s = 0;
  return options;
}

std::unique_ptr<SessionLog> OpenLog(ModelDisk& disk, SessionLogOptions options = TestOptions()) {
  auto log = SessionLog::Open(disk.Mount(), std::move(options));
  if (!log.ok()) {
    ADD_FAILURE() << log.status();
    return nullptr;
  }
  return *std::move(log);
}

LogRecord RecordOf(int32_t session, uint64_t turn, RecordType type, std::string body) {
  LogRecord record;
  record.type = type;
  record.facts.tenant = "t";
  record.facts.id = "s" + std::to_string(session);
  record.name = TestName("t", record.facts.id);
  record.turn = turn;
  record.turn_before = turn - 1;
  record.wall_s = 100;
  record.body = std::move(body);
  return record;
}

// What may be there of a session: {turn, bodies}. Turn 0: nothing.
using Past = std::pair<uint64_t, std::vector<std::string>>;

// A client that remembers what was acknowledged, and what may have come through besides.
struct Shadow {
  std::array<Past, kSessions> acknowledged;
  std::array<std::set<Past>, kSessions> possible;  // beside that

  static Past After(const Past& before, const LogRecord& record) {
    if (record.type == RecordType::kForget) return {};
    Past past = record.type == RecordType::kTurn ? before : Past();
    past.first = record.turn;
    past.second.push_back(record.body);
    return past;
  }
};

std::string Check(const SessionLog& log, const Shadow& shadow) {
  for (int32_t s = 0; s < kSessions; ++s) {
    const auto read = log.Read(TestName("t", "s" + std::to_string(s)));
    if (!read.ok() && !absl::IsNotFound(read.status())) return std::string(read.status().message());
    const Past found = read.ok() ? Past{read->session.turn, read->bodies} : Past();
    if (found != shadow.acknowledged[s] && !shadow.possible[s].contains(found)) {
      return "session " + std::to_string(s) + " is at turn " + std::to_string(found.first) + ", not " +
             std::to_string(shadow.acknowledged[s].first);
    }
  }
  return "";
}

// Groups of turns, ends of sessions, and cleaning between them. What may throw Killed does so out of here.
void Live(SessionLog& log, Shadow& shadow, std::mt19937& random, int steps) {
  for (int step = 0; step < steps; ++step) {
    std::vector<LogRecord> group;
    std::vector<int32_t> sessions;
    for (int32_t s = 0; s < kSessions; ++s) {
      if (random() % 3 != 0) continue;
      // Whoever knows of a turn that may or may not be there says all of it.
      const Past& past = shadow.acknowledged[s];
      const bool certain = shadow.possible[s].empty() && past.first > 0;
      RecordType type = certain && random() % 4 != 0 ? RecordType::kTurn : RecordType::kReplace;
      if (past.first > 0 && random() % 8 == 0) type = RecordType::kForget;
      std::string body = "body" + std::to_string(step) + std::string(random() % 200, static_cast<char>('a' + s));
      group.push_back(RecordOf(s, past.first + 1, type, std::move(body)));
      sessions.push_back(s);
    }
    for (size_t i = 0; i < group.size(); ++i) {
      const int32_t s = sessions[i];
      shadow.possible[s].insert(Shadow::After(shadow.acknowledged[s], group[i]));
    }
    const std::vector<bool> durable = log.Write(group, step);
    for (size_t i = 0; i < group.size(); ++i) {
      const int32_t s = sessions[i];
      if (!durable[i]) continue;
      shadow.acknowledged[s] = Shadow::After(shadow.acknowledged[s], group[i]);
      shadow.possible[s].clear();
    }
    if (random() % 2 == 0) log.Clean(200);
  }
}

enum class Ends { kKilled, kPowerLost, kKilledThenPowerLost };

// Lives until call `kill_at`, and once more after the start that follows. Returns what is wrong, and how many calls there were.
std::pair<std::string, int64_t> LiveAndDie(uint32_t seed, int64_t kill_at, Ends ends, bool lies = false) {
  ModelDisk disk;
  disk.lies = lies;
  disk.kill_at = kill_at;
  std::mt19937 random(seed);
  Shadow shadow;
  int64_t calls = 0;
  for (int life = 0; life < 3; ++life) {
    try {
      auto log = OpenLog(disk);
      if (log == nullptr) return {"no log", 0};
      disk.kill_at = life == 0 ? kill_at : -1;
      if (std::string wrong = Check(*log, shadow); !wrong.empty()) return {wrong, calls};
      // A start has said which of what was possible it was.
      for (int32_t s = 0; s < kSessions; ++s) {
        const auto read = log->Read(TestName("t", "s" + std::to_string(s)));
        shadow.acknowledged[s] = read.ok() ? Past{read->session.turn, read->bodies} : Past();
        shadow.possible[s].clear();
      }
      Live(*log, shadow, random, 25);
      if (life == 1) log->Checkpoint();
    } catch (const Killed&) {
    }
    if (life == 0) calls = disk.calls;
    disk.kill_at = -1;
    if (ends == Ends::kPowerLost || (ends == Ends::kKilledThenPowerLost && life > 0)) disk.LosePower(random);
  }
  auto log = OpenLog(disk);
  return {Check(*log, shadow), calls};
}

TEST(SessionLog, WhatWasAcknowledgedIsThereAfterAKillAtEveryCall) {
  for (const Ends ends : {Ends::kKilled, Ends::kPowerLost, Ends::kKilledThenPowerLost}) {
    for (uint32_t seed = 1; seed <= 3; ++seed) {
      const int64_t calls = LiveAndDie(seed, -1, ends).second;
      ASSERT_GT(calls, 60);
      for (int64_t kill_at = 0; kill_at < calls; ++kill_at) {
        const std::string wrong = LiveAndDie(seed, kill_at, ends).first;
        ASSERT_EQ(wrong, "") << "seed " << seed << ", call " << kill_at << ", end " << static_cast<int>(ends);
      }
    }
  }
}

TEST(SessionLog, ADiskThatSyncsNothingIsNoticed) {
  int noticed = 0;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    noticed += static_cast<int>(!LiveAndDie(seed, -1, Ends::kPowerLost, /*lies=*/true).first.empty());
  }
  EXPECT_GT(noticed, 10);
}

TEST(SessionLog, EveryCallFailsOnceAndNothingAcknowledgedIsLost) {
  for (const int failure : {-EIO, -ENOSPC, -EINTR, 1}) {
    for (const int64_t count : {int64_t{1}, int64_t{9}}) {
      for (int64_t fail_at = 0; fail_at < 150; ++fail_at) {
        ModelDisk disk;
        std::mt19937 random(static_cast<uint32_t>(fail_at));
        Shadow shadow;
        auto log = OpenLog(disk);
        disk.fail_at = disk.calls + fail_at;
        disk.fail_count = failure == -EINTR ? 1 : count;
        disk.failure = failure;
        Live(*log, shadow, random, 12);
        disk.fail_at = -1;
        const std::string where = "call " + std::to_string(fail_at) + ", failure " + std::to_string(failure);
        ASSERT_EQ(Check(*log, shadow), "") << where;
        log.reset();
        disk.LosePower(random);
        log = OpenLog(disk);
        ASSERT_EQ(Check(*log, shadow), "") << where << ", after a start";
      }
    }
  }
}

// What a failed write left in memory, where it could not be cut off either, is found by the next process, which builds on it. The
// disk never had it.
TEST(SessionLog, WhatOnlyTheMemoryHasIsNotBuiltOn) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    for (int64_t fail_at = 0; fail_at < 30; ++fail_at) {
      ModelDisk disk;
      std::mt19937 random(seed);
      Shadow shadow;
      auto log = OpenLog(disk);
      Live(*log, shadow, random, 12);
      disk.fail_at = disk.calls + fail_at;
      disk.fail_count = 1 + seed % 5;
      disk.truncates_fail = true;
      Live(*log, shadow, random, 3);
      log.reset();  // writes nothing
      disk.fail_at = -1;
      log = OpenLog(disk);
      const std::string where = "seed " + std::to_string(seed) + ", call " + std::to_string(fail_at);
      ASSERT_EQ(Check(*log, shadow), "") << where;
      for (int32_t s = 0; s < kSessions; ++s) {
        const auto read = log->Read(TestName("t", "s" + std::to_string(s)));
        shadow.acknowledged[s] = read.ok() ? Past{read->session.turn, read->bodies} : Past();
        shadow.possible[s].clear();
      }
      while (log->Clean(1'000'000)) {
      }
      log->Checkpoint();
      log.reset();
      disk.LosePower(random);
      log = OpenLog(disk);
      ASSERT_EQ(Check(*log, shadow), "") << where << ", after power was lost";
    }
  }
}

TEST(SessionLog, AfterTwoFailuresNothingIsPromisedUntilItWorksAgain) {
  ModelDisk disk;
  SessionLogOptions options = TestOptions();
  options.retry_s = 10;
  auto log = OpenLog(disk, options);
  const std::vector<LogRecord> one = {RecordOf(0, 1, RecordType::kReplace, "a")};
  EXPECT_THAT(log->Write(one, 0), ElementsAre(true));
  disk.fail_at = disk.calls;
  disk.fail_count = 1000;
  disk.failure = -ENOSPC;
  EXPECT_THAT(log->Write(std::vector{RecordOf(0, 2, RecordType::kTurn, "b")}, 0), ElementsAre(false));
  EXPECT_TRUE(log->counts().read_only);
  EXPECT_EQ(log->counts().errors, 2u);
  const int64_t calls = disk.calls;
  EXPECT_THAT(log->Write(one, 9'999'999), ElementsAre(false));
  EXPECT_EQ(disk.calls, calls) << "not tried";
  disk.fail_at = -1;
  EXPECT_THAT(log->Write(std::vector{RecordOf(0, 3, RecordType::kReplace, "c")}, 10'000'000), ElementsAre(true));
  EXPECT_FALSE(log->counts().read_only);
  EXPECT_THAT(log->Read(TestName("t", "s0"))->bodies, ElementsAre("c"));
}

TEST(SessionLog, WhatWorksAgainSaysSoWithoutAnybodyWriting) {
  ModelDisk disk;
  SessionLogOptions options = TestOptions();
  options.retry_s = 10;
  auto log = OpenLog(disk, options);
  disk.fail_at = disk.calls;
  disk.fail_count = 1000;
  EXPECT_THAT(log->Write(std::vector{RecordOf(0, 1, RecordType::kReplace, "a")}, 0), ElementsAre(false));
  log->TryAgain(10'000'000);
  EXPECT_TRUE(log->counts().read_only) << "it fails still";
  disk.fail_at = -1;
  log->TryAgain(19'999'999);
  EXPECT_TRUE(log->counts().read_only);
  log->TryAgain(20'000'000);
  EXPECT_FALSE(log->counts().read_only);
  const int64_t calls = disk.calls;
  log->TryAgain(40'000'000);
  EXPECT_EQ(disk.calls, calls) << "there is nothing to try";
  EXPECT_THAT(log->Write(std::vector{RecordOf(0, 1, RecordType::kReplace, "a")}, 40'000'000), ElementsAre(true));
}

TEST(SessionLog, ATurnAgainstAnotherThanTheLastIsNotTaken) {
  ModelDisk disk;
  auto log = OpenLog(disk);
  LogRecord lost = RecordOf(0, 3, RecordType::kTurn, "c");
  EXPECT_THAT(
      log->Write(std::vector{RecordOf(0, 1, RecordType::kReplace, "a"), RecordOf(1, 1, RecordType::kReplace, "x")}, 0),
      ElementsAre(true, true));
  EXPECT_THAT(log->Write(std::vector{lost, RecordOf(1, 2, RecordType::kTurn, "y")}, 0), ElementsAre(false, true));
  EXPECT_THAT(log->Read(TestName("t", "s0"))->bodies, ElementsAre("a"));
  EXPECT_THAT(log->Read(TestName("t", "s1"))->bodies, ElementsAre("x", "y"));
}

// Every byte of the newest segment is altered, or it ends there.
TEST(SessionLog, DamageLosesWhatItHitsAndGivesNobodyAnythingElse) {
  ModelDisk disk;
  SessionLogOptions options = TestOptions();
  options.segment_bytes = 1 << 20;
  {
    auto log = OpenLog(disk, options);
    for (uint64_t turn = 1; turn <= 3; ++turn) {
      std::vector<LogRecord> group;
      for (int32_t s = 0; s < 3; ++s) {
        const RecordType type = turn == 1 ? RecordType::kReplace : RecordType::kTurn;
        group.push_back(RecordOf(s, turn, type, std::to_string(s) + ":" + std::to_string(turn)));
      }
      log->Write(group, 0);
    }
  }
  std::string& bytes = disk.names.begin()->second->bytes;
  const std::string whole = bytes;
  const auto check = [&](const std::string& what, int32_t hurt_max) -> uint64_t {
    auto log = OpenLog(disk, options);
    int32_t hurt = 0;
    for (int32_t s = 0; s < 3; ++s) {
      const auto read = log->Read(TestName("t", "s" + std::to_string(s)));
      const uint64_t turn = read.ok() ? read->session.turn : 0;
      hurt += static_cast<int32_t>(turn < 3);
      std::vector<std::string> bodies;
      for (uint64_t t = 1; t <= turn; ++t) bodies.push_back(std::to_string(s) + ":" + std::to_string(t));
      EXPECT_EQ(read.ok() ? read->bodies : std::vector<std::string>(), bodies) << what;
    }
    EXPECT_LE(hurt, hurt_max) << what;
    return log->counts().damaged;
  };
  size_t last = 0;  // record
  ScanRecords(whole, 1, [&last](const ScannedRecord& record) { last = record.place.offset; });
  for (size_t at = kSegmentHeaderBytes; at < whole.size(); ++at) {
    bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    const uint64_t damaged = check("byte " + std::to_string(at), 1);
    ASSERT_TRUE(damaged > 0 || (at >= last && at < last + kRecordHeaderBytes)) << "byte " << at << " is not noticed";
    bytes = whole.substr(0, at);
    check("cut at " + std::to_string(at), 3);
  }
}

// A checkpoint whose checksum fits, and which has two sessions' places exchanged.
TEST(SessionLog, TheIndexIsNotTrustedOverThePayload) {
  ModelDisk disk;
  SessionLogOptions options = TestOptions();
  {
    auto log = OpenLog(disk, options);
    log->Write(
        std::vector{RecordOf(0, 1, RecordType::kReplace, "mine"), RecordOf(1, 1, RecordType::kReplace, "theirs")}, 0);
    log->Checkpoint();
  }
  for (auto& [name, file] : disk.names) {
    if (!name.ends_with(".idx")) continue;
    std::string& bytes = file->bytes;
    const SessionName a = TestName("t", "s0"), b = TestName("t", "s1");
    const auto text = [](const SessionName& n) {
      return std::string(reinterpret_cast<const char*>(n.data()), n.size());
    };
    const size_t at_a = bytes.find(text(a)), at_b = bytes.find(text(b));
    ASSERT_NE(at_a, std::string::npos);
    bytes.replace(at_a, a.size(), text(b)).replace(at_b, b.size(), text(a));
    bytes.resize(bytes.size() - 4);
    PutFixed(Crc32c(bytes), &bytes);
  }
  auto log = OpenLog(disk, options);
  EXPECT_EQ(log->counts().sessions, 2);
  for (const char* id : {"s0", "s1"}) EXPECT_TRUE(absl::IsDataLoss(log->Read(TestName("t", id)).status()));
  EXPECT_EQ(log->counts().damaged, 2u);
}

TEST(SessionLog, AStartAfterACheckpointReadsNoSegment) {
  ModelDisk disk;
  {
    auto log = OpenLog(disk);
    for (uint64_t turn = 1; turn <= 50; ++turn) {
      log->Write(std::vector{RecordOf(0, turn, turn == 1 ? RecordType::kReplace : RecordType::kTurn, "x")}, 0);
    }
    log->Checkpoint();
  }
  for (auto& [name, file] : disk.names) {
    if (name.ends_with(".seg")) file->bytes.resize(kSegmentHeaderBytes);
  }
  auto log = OpenLog(disk);
  EXPECT_EQ(log->counts().sessions, 1);
  EXPECT_TRUE(absl::IsDataLoss(log->Read(TestName("t", "s0")).status()));
}

TEST(SessionLog, ALaterFormatAndAnotherDirectorysSegmentAreLeftAlone) {
  ModelDisk disk;
  { OpenLog(disk)->Write(std::vector{RecordOf(0, 1, RecordType::kReplace, "a")}, 0); }
  SessionLogOptions other = TestOptions();
  other.directory.fill(8);
  EXPECT_EQ(OpenLog(disk, other)->counts().sessions, 0);
  EXPECT_EQ(OpenLog(disk)->counts().sessions, 1);
  std::string& bytes = disk.names.begin()->second->bytes;
  bytes[8] = 2;  // the major version
  std::string head = bytes.substr(0, kSegmentHeaderBytes - 4);
  PutFixed(Crc32c(head), &head);
  bytes.replace(0, head.size(), head);
  const auto log = SessionLog::Open(disk.Mount(), TestOptions());
  EXPECT_TRUE(absl::IsFailedPrecondition(log.status())) << log.status();
}

}  // namespace
}  // namespace hydrant
