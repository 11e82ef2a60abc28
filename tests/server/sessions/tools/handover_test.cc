#include "server/sessions/tools/handover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/sessions/transfer/session_file.h"
#include "tests/server/sessions/tools/sessions_on_disk.h"

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string FileOf(const std::string& id, const std::string& text, uint64_t turn) {
  SessionFile file;
  file.facts.tenant = "acme";
  file.facts.id = id;
  file.model = kDiskModel;
  file.turn = turn;
  file.past = EncodePast(PastThatSays(text), nullptr, kDiskModel);
  return WriteSessionFile(file);
}

// Sessions of one tenant, in memory.
class MemoryPlace : public SessionPlace {
 public:
  explicit MemoryPlace(std::string holder_in) : holder(std::move(holder_in)) {}
  const std::string& name() const override { return name_; }
  absl::StatusOr<std::vector<PlacedSession>> List(const std::string&) override {
    std::vector<PlacedSession> sessions;
    for (const auto& [id, file] : files) sessions.push_back({.tenant = "acme", .id = id, .turn = TurnOf(file)});
    return sessions;
  }
  absl::StatusOr<ExportedSession> Export(const std::string&, const std::string& id) override {
    if (down) return absl::UnavailableError("down");
    if (busy[id] > 0) {
      --busy[id];
      return absl::AbortedError("busy");
    }
    if (!files.contains(id)) return absl::NotFoundError("none");
    return ExportedSession{files[id], holder};
  }
  absl::StatusOr<MovingSession> ExportState(const std::string& tenant, const std::string& id) override {
    absl::StatusOr<MovingSession> state = SessionPlace::ExportState(tenant, id);
    if (state.ok() && id == loses_kv) state->kv_lost = "kv: is not what was written";
    return state;
  }
  absl::StatusOr<bool> Import(const std::string&, const std::string& file) override {
    if (down) return absl::UnavailableError("down");
    const std::string id = ReadSessionFile(file)->facts.id;
    if (id == refuses) return absl::ResourceExhaustedError("full");
    if (files.contains(id)) return absl::AlreadyExistsError("there");
    files[id] = file;
    if (on_import) on_import();
    return durable;
  }
  absl::StatusOr<bool> IsDurable(const std::string&, const std::string&) override { return durable; }
  absl::StatusOr<bool> Forget(const std::string&, const std::string& id, uint64_t turn) override {
    if (!files.contains(id)) return absl::NotFoundError("none");
    if (turn != 0 && turn != TurnOf(files[id])) return absl::OutOfRangeError("another turn");
    files.erase(id);
    return true;
  }
  absl::Status Purge(const std::string&, const std::string&) override { return absl::OkStatus(); }
  absl::StatusOr<VerifyReport> Verify(const std::string&) override { return VerifyReport(); }
  absl::Status Close() override { return absl::OkStatus(); }
  static uint64_t TurnOf(const std::string& file) { return ReadSessionFile(file)->turn; }
  std::vector<std::string> ids() const {
    std::vector<std::string> all;
    for (const auto& [id, file] : files) all.push_back(id);
    return all;
  }

  std::map<std::string, std::string> files;
  std::map<std::string, int> busy;  // so many more times
  std::string holder, refuses, loses_kv;
  bool durable = true;
  bool down = false;
  std::function<void()> on_import;

 private:
  const std::string name_ = "memory";
};

class HandoverTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* id : {"a", "b", "c"}) from_.files[id] = FileOf(id, std::string("said by ") + id, 2);
  }
  HandoverReport Run() {
    HandoverOptions options;
    options.clock = [this] { return now_us_ += 1000; };
    options.sleep = [this](double seconds) { now_us_ += static_cast<int64_t>(seconds * 1e6); };
    options.say = [this](std::string_view line) { said_.append(line).append("\n"); };
    const absl::StatusOr<HandoverReport> report = HandOver(from_, to_, options);
    status_ = report.status();
    return report.ok() ? *report : HandoverReport();
  }

  MemoryPlace from_{"one"}, to_{"another"};
  int64_t now_us_ = 0;
  std::string said_;
  absl::Status status_;
};

TEST_F(HandoverTest, AllOfThemMoveAndASecondTimeDoesNoHarm) {
  const HandoverReport report = Run();
  EXPECT_EQ(report.moved, 3);
  EXPECT_TRUE(report.complete());
  EXPECT_THAT(from_.ids(), IsEmpty());
  EXPECT_THAT(to_.ids(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(Run().sessions, 0);
}

TEST_F(HandoverTest, KvThatBreaksOffIsTold) {
  from_.loses_kv = "b";
  const HandoverReport report = Run();
  EXPECT_EQ(report.moved, 3);
  EXPECT_EQ(report.kv_lost, 1);
  EXPECT_THAT(said_, HasSubstr("session acme/b goes without its KV: kv: is not what was written"));
}

TEST_F(HandoverTest, WhatWasCopiedBeforeItWasBrokenOffLeaves) {
  to_.files["a"] = from_.files["a"];
  to_.files["b"] = FileOf("b", "said by b, and more", 3);  // it has gone on there
  const HandoverReport report = Run();
  EXPECT_EQ(report.present, 2);
  EXPECT_EQ(report.moved, 1);
  EXPECT_THAT(from_.ids(), IsEmpty());
  EXPECT_EQ(MemoryPlace::TurnOf(to_.files["b"]), 3u);
}

TEST_F(HandoverTest, WhatMayBeThereOnlyOnceStays) {
  to_.files = from_.files;
  from_.holder = to_.holder;
  HandoverReport report = Run();
  EXPECT_EQ(report.left, 3);
  EXPECT_FALSE(report.complete());
  EXPECT_THAT(from_.ids(), ElementsAre("a", "b", "c"));
  EXPECT_THAT(said_, HasSubstr("session acme/a stays: both addresses lead to the server that has it"));
  to_.holder = "";
  EXPECT_EQ(Run().left, 3);
  EXPECT_THAT(from_.ids(), ElementsAre("a", "b", "c"));
  EXPECT_THAT(said_, HasSubstr("session acme/a stays: it is there already, and an older server does not say"));
  from_.files["d"] = FileOf("d", "said by d", 1);
  EXPECT_EQ(Run().moved, 1) << "what was not there has come to another one";
}

TEST_F(HandoverTest, TheOneThatHasGoneOnWins) {
  to_.files["a"] = FileOf("a", "said", 1);  // a copy of the turn before
  EXPECT_EQ(Run().moved, 3);
  EXPECT_EQ(MemoryPlace::TurnOf(to_.files["a"]), 2u);
}

TEST_F(HandoverTest, TwoThatDifferStayWhereTheyAre) {
  to_.files["a"] = FileOf("a", "something else", 2);
  const HandoverReport report = Run();
  EXPECT_EQ(report.left, 1);
  EXPECT_FALSE(report.complete());
  EXPECT_THAT(from_.ids(), ElementsAre("a"));
  EXPECT_THAT(said_, HasSubstr("session acme/a stays: there"));
}

TEST_F(HandoverTest, NothingLeavesForAPlaceThatWouldLoseIt) {
  to_.durable = false;
  EXPECT_EQ(Run().not_durable, 3);
  EXPECT_THAT(from_.ids(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(Run().not_durable, 3) << "nor the second time";
  EXPECT_THAT(from_.ids(), ElementsAre("a", "b", "c"));
  to_.durable = true;
  EXPECT_EQ(Run().present, 3);
}

TEST_F(HandoverTest, ATurnInProgressIsWaitedForAndNotForEver) {
  from_.busy = {{"a", 3}, {"b", 1'000'000}};
  const HandoverReport report = Run();
  EXPECT_EQ(report.moved, 2);
  EXPECT_EQ(report.left, 1);
  EXPECT_THAT(said_, HasSubstr("session acme/b stays: a turn of it is in progress"));
  EXPECT_THAT(from_.ids(), ElementsAre("b"));
}

TEST_F(HandoverTest, ATurnThatEndsBehindTheCopyIsNotLost) {
  from_.files.erase("b");
  from_.files.erase("c");
  int imports = 0;
  to_.on_import = [&] {
    if (++imports == 1) from_.files["a"] = FileOf("a", "said by a, and more", 3);
  };
  EXPECT_EQ(Run().moved, 1);
  EXPECT_EQ(MemoryPlace::TurnOf(to_.files["a"]), 3u);
  EXPECT_THAT(from_.ids(), IsEmpty());
}

TEST_F(HandoverTest, OneThatIsRefusedStaysAndAPlaceThatIsDownEndsIt) {
  to_.refuses = "b";
  EXPECT_EQ(Run().left, 1);
  EXPECT_THAT(said_, HasSubstr("session acme/b stays: full"));
  EXPECT_THAT(from_.ids(), ElementsAre("b"));
  to_.down = true;
  Run();
  EXPECT_TRUE(absl::IsUnavailable(status_));
  EXPECT_THAT(from_.ids(), ElementsAre("b"));
}

}  // namespace
}  // namespace hydrant
