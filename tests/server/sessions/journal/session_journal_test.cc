#include "server/sessions/journal/session_journal.h"

#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "server/process/clock.h"
#include "tests/server/sessions/journal/stuck_disk.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

std::unique_ptr<SessionJournal> OpenJournal(const std::string& path, SessionJournal::Options options = {}) {
  options.clock = MonotonicUs;
  options.wall_clock = [] { return static_cast<int64_t>(std::time(nullptr)); };
  options.any_file_system = true;  // tests may run in a container's own layer
  auto journal = SessionJournal::Open(path, std::move(options));
  EXPECT_TRUE(journal.ok()) << journal.status();
  return *std::move(journal);
}

LogRecord FirstTurn(const SessionJournal& journal, const std::string& id) {
  LogRecord record;
  record.facts = {"t", id, 0, 0, 0, 0};
  record.name = journal.NameOf("t", id);
  record.turn = 1;
  record.body = "said by " + id;
  return record;
}

TEST(SessionJournal, ManyThreadsCommitsShareSyncsAndAreAllThereAfterwards) {
  const TempDir temp;
  constexpr int kThreads = 4, kEach = 50;
  auto journal = OpenJournal(temp.File("d"));
  std::atomic<int> durable = 0, open = 0, most = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        most = std::max(most.load(), ++open);
        journal->Commit(FirstTurn(*journal, std::to_string(t * kEach + i)), [&](bool is_durable) {
          durable += static_cast<int>(is_durable);
          --open;
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  journal->Stop();
  EXPECT_EQ(durable, kThreads * kEach);
  EXPECT_EQ(open, 0);
  const LogCounts counts = journal->counts();
  EXPECT_EQ(counts.records, static_cast<uint64_t>(kThreads * kEach));
  EXPECT_LE(counts.commits, counts.records);
  uint64_t observed = 0;
  for (const uint64_t count : journal->times().counts) observed += count;
  EXPECT_EQ(observed, counts.records);
  journal.reset();
  journal = OpenJournal(temp.File("d"));
  EXPECT_EQ(journal->counts().sessions, kThreads * kEach);
  EXPECT_EQ(journal->Read(journal->NameOf("t", "7"))->bodies.front(), "said by 7");
}

TEST(SessionJournal, ALogThatIsNeverAtRestIsCleanedToo) {
  const TempDir temp;
  SessionJournal::Options options;
  options.purge_s = 0;
  options.look_us = 0;
  auto journal = OpenJournal(temp.File("d"), std::move(options));
  journal->Commit(FirstTurn(*journal, "a-canary"), nullptr);
  LogRecord end = FirstTurn(*journal, "a-canary");
  end.type = RecordType::kForget;
  journal->Commit(std::move(end), nullptr);
  // Each hands over the next before the journal can rest.
  std::promise<void> over;
  std::function<void(int)> next = [&](int left) {
    if (left == 0) return over.set_value();
    journal->Commit(FirstTurn(*journal, "busy"), [&next, left](bool) { next(left - 1); });
  };
  next(50);
  over.get_future().wait();
  journal->Stop();
  for (const auto& file : std::filesystem::directory_iterator(temp.File("d/log"))) {
    std::stringstream bytes;
    bytes << std::ifstream(file.path(), std::ios::binary).rdbuf();
    EXPECT_EQ(bytes.str().find("said by a-canary"), std::string::npos) << file.path();
  }
}

TEST(SessionJournal, WhatComesAfterItsEndIsNotDurable) {
  const TempDir temp;
  auto journal = OpenJournal(temp.File("d"));
  journal->Stop();
  bool told = false;
  journal->Commit(FirstTurn(*journal, "late"), [&](bool durable) {
    told = true;
    EXPECT_FALSE(durable);
  });
  EXPECT_TRUE(told);
  journal->Commit(FirstTurn(*journal, "late"), nullptr);
  EXPECT_TRUE(absl::IsNotFound(journal->Read(journal->NameOf("t", "late")).status()));
}

// A disk that hangs, and clients that have gone.
TEST(SessionJournal, WhatWaitsIsBoundedAndNoTenantTakesAllOfIt) {
  const TempDir temp;
  SessionJournal::Options options;
  options.waiting_bytes_max = 120'000;
  const auto journal = OpenJournal(temp.File("d"), std::move(options));
  std::promise<void> hangs, back;
  std::atomic<int> taken = 0;
  const auto commit = [&](const std::string& tenant, int64_t beside = 0) {
    LogRecord record;
    record.facts = {tenant, "s", 0, 0, 0, 0};
    record.name = journal->NameOf(tenant, "s");
    record.turn = 1;
    record.body.assign(9'000 - kRecordHeaderBytes, 'x');
    bool refused = false;
    journal->Commit(
        std::move(record), [&refused, &taken](bool durable) { durable ? void(++taken) : void(refused = true); },
        1'000 + beside);
    return !refused;
  };
  LogRecord first = FirstTurn(*journal, "s");
  journal->Commit(first, [&](bool) {
    hangs.set_value();
    back.get_future().wait();
  });
  hangs.get_future().wait();
  const int64_t before = journal->counts().waiting_bytes;
  EXPECT_GT(before, 0) << "it is being written";
  int a = 0, b = 0, c = 0;
  while (a < 100 && commit("a")) ++a;
  EXPECT_EQ(a, 5) << "half of it, nearly";
  EXPECT_FALSE(journal->TakesNow("a", 10'000));
  while (b < 100 && commit("b")) ++b;
  while (c < 100 && commit("c")) ++c;
  EXPECT_EQ(b, 3) << "half of what was left";
  EXPECT_EQ(c, 1);
  EXPECT_TRUE(journal->TakesNow("d", 5'000));
  EXPECT_FALSE(journal->TakesNow("d", 50'000));
  LogRecord end = first;
  end.type = RecordType::kForget;
  std::promise<bool> gone;
  journal->Commit(end, [&](bool is) { gone.set_value(is); });
  EXPECT_EQ(journal->counts().waiting_bytes,
            before + 10'000 * (a + b + c) + static_cast<int64_t>(kRecordHeaderBytes) + std::ssize(end.body));
  EXPECT_EQ(journal->counts().passed, 5u);
  back.set_value();
  EXPECT_TRUE(gone.get_future().get()) << "that it is gone has room";
  journal->Stop();
  EXPECT_EQ(taken, a + b + c);
  EXPECT_EQ(journal->counts().waiting_bytes, 0);
}

// However small it is. Half of what there is, nearly, is what one tenant has.
TEST(SessionJournal, WhatWaitsTakesAPlaceAndTheEndsOfOneSessionShareTheirs) {
  const TempDir temp;
  SessionJournal::Options options;
  options.waiting_max = 12;
  const auto journal = OpenJournal(temp.File("d"), std::move(options));
  int told = 0, durable = 0;
  bool refused = false;
  const auto tells = [&](bool is) {
    ++told;
    durable += static_cast<int>(is);
    refused = refused || !is;
  };
  const auto commit = [&](const std::string& tenant, const std::string& id, RecordType type, bool asks = true) {
    LogRecord record = FirstTurn(*journal, id);
    record.type = type;
    record.facts.tenant = tenant;
    refused = false;
    journal->Commit(std::move(record), asks ? std::function<void(bool)>(tells) : nullptr);
    return !refused;
  };
  // What the writer tells is told beside this thread.
  for (const char* id : {"ended", "begun again"}) commit("t", id, RecordType::kReplace, /*asks=*/false);
  std::promise<void> hangs, back;
  journal->Commit(FirstTurn(*journal, "s"), [&](bool) {
    hangs.set_value();
    back.get_future().wait();
  });
  hangs.get_future().wait();
  EXPECT_TRUE(commit("t", "begun again", RecordType::kForget));
  EXPECT_TRUE(commit("t", "begun again", RecordType::kReplace));
  int small = 0, other = 0, ends = 0;
  while (small < 100 && commit("a", "r" + std::to_string(small), RecordType::kReplace)) ++small;
  while (other < 100 && commit("b", "o" + std::to_string(other), RecordType::kReplace)) ++other;
  EXPECT_EQ(small, 4);
  EXPECT_EQ(other, 2);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(commit("a", "ended", RecordType::kForget, /*asks=*/false));
  while (ends < 100 && commit("a", "ended", RecordType::kForget)) ++ends;
  EXPECT_EQ(ends, 4) << "who asks is kept";
  EXPECT_LT(journal->counts().waiting_bytes, 20 * 4096) << "of memory, not of places";
  EXPECT_TRUE(commit("b", "ends too", RecordType::kForget)) << "another one's has room";
  const int waiting = 2 + small + other + ends + 1;
  told = durable = 0;
  back.set_value();
  journal->Stop();
  EXPECT_EQ(told, waiting);
  EXPECT_EQ(durable, waiting);
  EXPECT_EQ(journal->counts().waiting_bytes, 0);
  EXPECT_EQ(journal->TurnOf(journal->NameOf("t", "ended")), 0u);
  EXPECT_EQ(journal->TurnOf(journal->NameOf("t", "begun again")), 1u) << "in their order";
}

TEST(SessionJournal, AnEndThatNobodyAsksForAgainIsWrittenOnceTheDiskTakesIt) {
  const TempDir temp;
  StuckDisk disk;
  SessionJournal::Options options;
  options.retry_s = 0;
  options.through = [&disk](std::unique_ptr<LogDirectory> files) {
    return std::make_unique<StuckDirectory>(std::move(files), disk);
  };
  auto journal = OpenJournal(temp.File("d"), std::move(options));
  const auto commits = [&](LogRecord record) {
    std::promise<bool> durable;
    journal->Commit(std::move(record), [&](bool is_durable) { durable.set_value(is_durable); });
    return durable.get_future().get();
  };
  const auto end_of = [&](const std::string& id) {
    LogRecord end = FirstTurn(*journal, id);
    end.type = RecordType::kForget;
    end.until_durable = true;
    return end;
  };
  const auto turn_of = [&](const std::string& id) { return journal->TurnOf(journal->NameOf("t", id)); };
  for (const char* id : {"gone", "again", "asked"}) EXPECT_TRUE(commits(FirstTurn(*journal, id)));
  disk.Hang(StuckDisk::Stuck::kWritesFail);
  EXPECT_FALSE(commits(end_of("gone")));
  EXPECT_FALSE(commits(end_of("again")));
  LogRecord asked = end_of("asked");
  asked.until_durable = false;
  EXPECT_FALSE(commits(std::move(asked)));
  disk.Hang(StuckDisk::Stuck::kNothing);
  EXPECT_TRUE(commits(FirstTurn(*journal, "again")));
  EXPECT_EQ(turn_of("gone"), 0u);
  EXPECT_EQ(turn_of("again"), 1u) << "it began after that end";
  EXPECT_EQ(turn_of("asked"), 1u) << "whoever was told asks again";
  disk.Hang(StuckDisk::Stuck::kWritesFail);
  EXPECT_FALSE(commits(end_of("again")));
  disk.Hang(StuckDisk::Stuck::kNothing);
  // A look comes before it: nobody has anything else to be written.
  std::promise<void> looked;
  journal->Purge(journal->NameOf("t", "other"), [&](bool) { looked.set_value(); });
  looked.get_future().wait();
  EXPECT_EQ(turn_of("again"), 0u);
  journal.reset();
  journal = OpenJournal(temp.File("d"));
  EXPECT_EQ(journal->counts().sessions, 1);
}

TEST(SessionJournal, APurgeEndsWhenNoSegmentHasWhatIsGone) {
  const TempDir temp;
  const auto journal = OpenJournal(temp.File("d"), {.purge_s = 1'000'000, .look_us = int64_t{3'600'000'000}});
  const auto commit = [&](LogRecord record) {
    std::promise<bool> durable;
    journal->Commit(std::move(record), [&](bool is) { durable.set_value(is); });
    return durable.get_future().get();
  };
  for (const char* id : {"a", "b"}) EXPECT_TRUE(commit(FirstTurn(*journal, id)));
  LogRecord end;
  end.type = RecordType::kForget;
  end.name = journal->NameOf("t", "a");
  end.turn = 1;
  EXPECT_TRUE(commit(end));
  EXPECT_EQ(journal->counts().forgotten_segments, 1);
  EXPECT_TRUE(journal->HasForgotten(end.name));
  std::promise<bool> purged, again;
  journal->Purge(end.name, [&](bool is) { purged.set_value(is); });
  EXPECT_TRUE(purged.get_future().get()) << "though nothing was due, and it looks once an hour";
  EXPECT_EQ(journal->counts().forgotten_segments, 0);
  EXPECT_TRUE(journal->Read(journal->NameOf("t", "b")).ok());
  journal->Purge(end.name, [&](bool is) { again.set_value(is); });
  EXPECT_TRUE(again.get_future().get()) << "there is nothing to be done";
  journal->Stop();
  bool said = true;
  journal->Purge(end.name, [&](bool is) { said = is; });
  EXPECT_FALSE(said);
}

TEST(SessionJournal, APurgeWaitsForNothingThatIsAnothers) {
  const TempDir temp;
  const auto journal = OpenJournal(temp.File("d"), {.segment_bytes = 4000, .look_us = int64_t{3'600'000'000}});
  const auto commit = [&](const std::string& id, RecordType type, const std::string& body = "") {
    LogRecord record = FirstTurn(*journal, id);
    record.type = type;
    record.body += body;
    std::promise<bool> durable;
    journal->Commit(std::move(record), [&](bool is) { durable.set_value(is); });
    EXPECT_TRUE(durable.get_future().get());
  };
  const auto purge = [&](const std::string& id) {
    std::promise<bool> purged;
    journal->Purge(journal->NameOf("t", id), [&](bool is) { purged.set_value(is); });
    return purged.get_future().get();
  };
  commit("gone", RecordType::kReplace);
  commit("hurt", RecordType::kReplace, std::string(5000, 'h'));
  commit("other", RecordType::kReplace);
  commit("gone", RecordType::kForget);
  commit("other", RecordType::kForget);
  const std::string segment = temp.File("d/log/000001.seg");
  std::stringstream bytes;
  bytes << std::ifstream(segment, std::ios::binary).rdbuf();
  const auto at = static_cast<std::streamoff>(bytes.str().find("said by hurt"));
  std::fstream(segment, std::ios::in | std::ios::out | std::ios::binary).seekp(at) << 'S';
  EXPECT_TRUE(purge("other"));
  EXPECT_FALSE(journal->HasForgotten(journal->NameOf("t", "other")));
  EXPECT_FALSE(purge("gone"));
  EXPECT_TRUE(journal->HasForgotten(journal->NameOf("t", "gone")));
  std::fstream(segment, std::ios::in | std::ios::out | std::ios::binary).seekp(at) << 's';
  EXPECT_TRUE(purge("gone")) << "it is tried again for whoever asks for it";
  EXPECT_EQ(journal->counts().forgotten_segments, 0);
}

}  // namespace
}  // namespace hydrant
