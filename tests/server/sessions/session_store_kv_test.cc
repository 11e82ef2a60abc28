#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/process/clock.h"
#include "server/sessions/session_store.h"
#include "tests/server/sessions/journal/stuck_disk.h"
#include "tests/server/sessions/kv/kv_bytes.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

// A store with a journal and a keeper, over an engine that has parked what the test says.
class SessionStoreKv : public testing::Test {
 protected:
  static constexpr SessionOwner kOwner = {.tenant = 0};
  static constexpr SessionOwner kPromised = {.tenant = 0, .keeps_kv = true};
  static constexpr int32_t kLive = 20;

  void Open() {
    SessionJournal::Options journal_options;
    journal_options.clock = MonotonicUs;
    journal_options.wall_clock = [] { return int64_t{1'700'000'000}; };
    auto journal = SessionJournal::Open(temp_.File("d"), std::move(journal_options));
    ASSERT_TRUE(journal.ok()) << journal.status();
    journal_ = *std::move(journal);
    KvFormat format = TinyFormat();
    format.directory = journal_->directory_id();
    KvKeeper::Options keeper;
    keeper.bytes_max = 1 << 20;
    keeper.look_us = 1'000'000'000;
    keeper.bytes_per_s = bytes_per_s_;
    keeper.clock = MonotonicUs;
    keeper.weight_of = [](const std::string&) { return 1.0; };
    keeper.bytes_max_of = [this](const std::string& tenant) { return store_->KvBytesMaxOf(tenant); };
    keeper.owner_of = [this](const SessionName& name) -> std::optional<KvKeeper::Options::Owner> {
      const auto session = journal_->Find(name);
      if (!session.has_value()) return std::nullopt;
      return KvKeeper::Options::Owner{session->turn, session->used_s, session->facts.tenant};
    };
    kv_ = std::make_unique<KvKeeper>(std::make_unique<StuckDirectory>(journal_->TakeKv(), disk_), format,
                                     std::move(keeper));
    SessionStore::Options options;
    options.clock = [this] { return now_us_; };
    options.wall_clock = [] { return int64_t{1'700'000'000}; };
    options.on_forget = [](uint64_t) {};
    options.on_settle = [](const TurnId&, bool) {};
    options.journal = journal_.get();
    options.kv = kv_.get();
    options.take_parked = [this](const TurnId& turn, const std::function<void(KvBytes)>& done) { done(Parked(turn)); };
    options.kv_promised_bytes_max = promised_bytes_max_;
    options.kv_lost_bytes_max = lost_bytes_max_;
    options.tenants = 1;
    options.tenant_name = [](int32_t) { return std::string("t"); };
    store_ = std::make_unique<SessionStore>(std::move(options));
    kv_->Start({[this](const SessionName& name, uint64_t turn) { store_->OnKvFile(name, turn); },
                [this] { store_->KeepDue(); }});
  }
  void Close() {
    if (kv_ != nullptr) kv_->Stop();
    if (journal_ != nullptr) journal_->Stop();
    store_.reset();
    kv_.reset();
    journal_.reset();
  }
  void Restart() {
    Close();
    parked_.clear();
    Open();
  }
  void SetUp() override { Open(); }
  void TearDown() override { Close(); }

  KvBytes Parked(const TurnId& turn) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = parked_.find(turn);
    return found == parked_.end() ? KvBytes() : found->second;
  }
  void Park(const TurnId& turn, int32_t computed) {
    KvFileHeader header = TinyHeader(kLive);
    header.binding.computed = computed;
    const std::vector<std::byte> payload = TinyPayload(header, static_cast<uint32_t>(turn.turn));
    const auto bytes = std::make_shared<std::byte[]>(payload.size());
    std::memcpy(bytes.get(), payload.data(), payload.size());
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      parked_[turn] = {bytes, payload.size(), computed, kLive};
    }
    const ParkedTurn parked = {turn, computed, kLive};
    store_->OnParked({}, {&parked, 1});
  }
  // A turn that leaves KV of all its tokens but one.
  Durability Turn(const std::string& id, size_t tokens, const SessionOwner& owner = kOwner) {
    return BeginTurn(id, tokens, owner).get();
  }
  std::future<Durability> BeginTurn(const std::string& id, size_t tokens, const SessionOwner& owner) {
    ApiResult<SessionTurn> turn = store_->Begin(owner, id, false);
    EXPECT_TRUE(turn.ok());
    SessionPast past;
    past.tokens.assign(tokens, token_);
    past.computed = static_cast<int32_t>(tokens) - 1;
    if (evicts_) past.spec.preset = KvPreset::kH2o;
    if (parks_) Park({turn.value().session(), turn.value().turn()}, past.computed);
    const auto durable = std::make_shared<std::promise<Durability>>();
    turn.value().Commit(std::move(past), [durable](Durability is) { durable->set_value(is); });
    return durable->get_future();
  }
  void LookAfter(int64_t seconds) {
    now_us_ += seconds * 1'000'000;
    store_->KeepDue();
    // Behind what that asked for; and once more, behind what the keeper's thread asked for, which may have looked after it before.
    for (int i = 0; i < 2; ++i) WaitForKeeper();
  }
  // Behind all that the keeper was asked for, and its reading of the directory at the start.
  void WaitForKeeper() {
    std::promise<void> behind;
    kv_->Write({}, /*urgent=*/false, [&](bool) { behind.set_value(); });
    behind.get_future().wait();
  }
  int64_t Files() const { return kv_->counts().files; }
  SessionState StateOf(const std::string& id) { return store_->Get(0, id).value().state; }

  const TempDir temp_;
  StuckDisk disk_;  // of KV
  int64_t bytes_per_s_ = 0;
  int64_t promised_bytes_max_ = 1 << 20;
  int64_t lost_bytes_max_ = 1 << 20;
  int64_t now_us_ = 1'000'000;
  bool parks_ = true;
  bool evicts_ = false;
  int32_t token_ = 5;
  std::mutex mutex_;
  std::map<TurnId, KvBytes> parked_;
  std::unique_ptr<SessionJournal> journal_;
  std::unique_ptr<KvKeeper> kv_;
  std::unique_ptr<SessionStore> store_;
};

TEST_F(SessionStoreKv, ATurnThatPromisesItsKvEndsWhenThatIsOnTheDisk) {
  EXPECT_EQ(Turn("s", 40, kPromised), Durability::kKv);
  EXPECT_EQ(Files(), 1);
  EXPECT_EQ(Turn("s", 50, kPromised), Durability::kKv);
  EXPECT_EQ(Files(), 1) << "that of the turn before went";
  EXPECT_EQ(Turn("u", 40), Durability::kTokens) << "nobody was promised it";
  EXPECT_EQ(Files(), 1);
  parks_ = false;
  EXPECT_EQ(Turn("v", 40, kPromised), Durability::kTokens) << "nothing was parked";
  Restart();
  WaitForKeeper();  // it opens what it finds
  ApiResult<SessionTurn> turn = store_->Begin(kOwner, "s", true);
  ASSERT_TRUE(turn.ok());
  ASSERT_NE(turn.value().kv_file(), nullptr);
  EXPECT_EQ(turn.value().parked()->id.turn, 2u);
  EXPECT_EQ(turn.value().parked()->computed, 49);
  EXPECT_EQ(OpenKvFiles(), 1);
  std::promise<KvBytes> read;
  store_->ReadKv(&turn.value(), [&](KvBytes kv) { read.set_value(std::move(kv)); });
  EXPECT_EQ(read.get_future().get().size, static_cast<size_t>(turn.value().kv_file()->payload_bytes()));
  EXPECT_EQ(OpenKvFiles(), 0) << "however long the turn goes on";
}

// A turn that says nothing, and changes what is kept of those before.
TEST_F(SessionStoreKv, WhatIsRemovedFromASessionIsOffTheDiskWhenThatIsSaid) {
  EXPECT_EQ(Turn("s", 40, kPromised), Durability::kKv);
  const auto change = [this](bool removes) {
    ApiResult<SessionTurn> turn = store_->Begin(kPromised, "s", true);
    SessionPast past = *turn.value().past();
    std::promise<int> told;
    const auto done = [&](Durability durable) {
      const std::filesystem::directory_iterator files(temp_.File("d") + "/kv");
      told.set_value(durable == Durability::kNone ? -1 : static_cast<int>(std::distance(begin(files), end(files))));
    };
    turn.value().Commit(std::move(past), done, removes);
    return told.get_future().get();
  };
  EXPECT_EQ(change(/*removes=*/false), 1) << "the next turn's goes on from it";
  EXPECT_EQ(change(/*removes=*/true), 0);
  EXPECT_EQ(Files(), 0);
  EXPECT_EQ(change(/*removes=*/true), 0) << "there is none";
  EXPECT_EQ(Turn("s", 60, kPromised), Durability::kKv);
  disk_.Hang(StuckDisk::Stuck::kRemovesFail);
  EXPECT_EQ(change(/*removes=*/true), -1);
  disk_.Hang(StuckDisk::Stuck::kNothing);
  EXPECT_EQ(change(/*removes=*/true), 0);
}

TEST_F(SessionStoreKv, AnotherHistoryLeavesNoFileOfTheOneBefore) {
  EXPECT_EQ(Turn("s", 40, kPromised), Durability::kKv);
  parks_ = false;
  token_ = 6;
  EXPECT_EQ(Turn("s", 50), Durability::kTokens);
  LookAfter(0);
  EXPECT_EQ(Files(), 0);
}

TEST_F(SessionStoreKv, ATurnThatCameToNothingLeavesTheKvBeforeItDue) {
  EXPECT_EQ(Turn("s", 40), Durability::kTokens);
  {
    ApiResult<SessionTurn> turn = store_->Begin(kOwner, "s", true);
    ASSERT_TRUE(turn.ok());
    LookAfter(6);  // it is busy when it is due
    EXPECT_EQ(Files(), 0);
  }
  LookAfter(6);
  EXPECT_EQ(Files(), 1);
}

TEST_F(SessionStoreKv, WhoIsLeftAloneIsWritten) {
  EXPECT_EQ(Turn("s", 40), Durability::kTokens);
  LookAfter(4);
  EXPECT_EQ(Files(), 0);
  LookAfter(2);
  EXPECT_EQ(Files(), 1);
  EXPECT_EQ(StateOf("s"), SessionState::kParked) << "in memory, too";
  const TurnId lost = {1, 1};
  store_->OnParked({&lost, 1}, {});
  EXPECT_EQ(StateOf("s"), SessionState::kOnDisk);
  EXPECT_EQ(store_->counts().on_disk, 1);
  parks_ = false;
  EXPECT_EQ(Turn("s", 50), Durability::kTokens);
  LookAfter(6);
  EXPECT_EQ(Files(), 1) << "of a turn that is past, for the next one's to go on from: it keeps everything";
  EXPECT_EQ(StateOf("s"), SessionState::kCold);
  evicts_ = true;
  EXPECT_EQ(Turn("s", 60), Durability::kTokens);
  LookAfter(6);
  EXPECT_EQ(Files(), 0) << "nothing goes on from it now";
}

TEST_F(SessionStoreKv, WhatHasToMakeRoomIsWrittenUnlessItIsNobodys) {
  EXPECT_EQ(Turn("s", 40), Durability::kTokens);
  store_->OnKvLoss({1, 1}, Parked({1, 1}));
  store_->OnKvLoss({1, 7}, Parked({1, 1}));   // an abandoned turn's
  store_->OnKvLoss({99, 1}, Parked({1, 1}));  // of a session that is gone
  LookAfter(0);
  EXPECT_EQ(Files(), 1);
  EXPECT_EQ(kv_->counts().writes, 1u);
  EXPECT_EQ(kv_->counts().moved, 1u);
  store_->OnKvLoss({1, 1}, Parked({1, 1}));  // brought back, and once more in the way
  LookAfter(0);
  EXPECT_EQ(kv_->counts().writes, 1u);
  EXPECT_EQ(kv_->counts().moved, 2u) << "it is there already";
}

TEST_F(SessionStoreKv, WhatHasToMakeRoomIsWrittenHoweverLargeItIsAndCountedWhereItIsNot) {
  Close();
  lost_bytes_max_ = 10;
  Open();
  for (const char* id : {"a", "b"}) EXPECT_EQ(Turn(id, 40), Durability::kTokens);
  std::promise<void> held, go;
  kv_->Write({}, /*urgent=*/false, [&](bool) {
    held.set_value();
    go.get_future().wait();
  });
  held.get_future().wait();
  const uint64_t passed = kv_->counts().passed;
  store_->OnKvLoss({1, 1}, Parked({1, 1}));
  EXPECT_EQ(kv_->counts().passed, passed);
  store_->OnKvLoss({2, 1}, Parked({2, 1}));
  EXPECT_EQ(kv_->counts().passed, passed + 1) << "one waits already";
  go.set_value();
  LookAfter(0);
  EXPECT_EQ(Files(), 1);
}

TEST_F(SessionStoreKv, AtTheEndAllIsWrittenForAsLongAsThereIsTime) {
  for (const char* id : {"a", "b", "c"}) EXPECT_EQ(Turn(id, 40), Durability::kTokens);
  const auto read = [this](const TurnId& turn) { return Parked(turn); };
  EXPECT_EQ(store_->KeepAll(now_us_, read), 0) << "there is no time";
  EXPECT_EQ(store_->KeepAll(now_us_ + 60'000'000, read), 3);
  EXPECT_EQ(store_->KeepAll(now_us_ + 60'000'000, read), 0) << "all of it is there";
  Restart();
  for (const char* id : {"a", "b", "c"}) {
    EXPECT_NE(store_->Begin(kOwner, id, true).value().kv_file(), nullptr) << "before the sweep or after it";
  }
}

// It is nowhere else by then, and --session-disk-mbps slows down nothing at the end.
TEST_F(SessionStoreKv, AtTheEndWhatHadLeftMemoryAndWaitedIsWrittenToo) {
  Close();
  bytes_per_s_ = 100;  // 160 s each
  Open();
  for (const char* id : {"a", "b", "c", "d"}) EXPECT_EQ(Turn(id, 40), Durability::kTokens);
  for (uint64_t session = 1; session <= 3; ++session) {
    const TurnId lost = {session, 1};
    store_->OnParked({&lost, 1}, {});
    store_->OnKvLoss(lost, Parked(lost));
  }
  EXPECT_EQ(store_->KeepAll(now_us_ + 60'000'000, [this](const TurnId& turn) { return Parked(turn); }), 4);
  for (const char* id : {"a", "b", "c"}) EXPECT_EQ(StateOf(id), SessionState::kOnDisk);
}

TEST_F(SessionStoreKv, WhatIsDeletedIsOffTheDiskWhenThatIsSaid) {
  EXPECT_EQ(Turn("s", 40, kPromised), Durability::kKv);
  EXPECT_EQ(Turn("t", 40), Durability::kTokens);
  std::promise<bool> gone;
  EXPECT_FALSE(store_->Delete(0, "s", [&](bool durable) { gone.set_value(durable); }).has_value());
  EXPECT_TRUE(gone.get_future().get());
  EXPECT_TRUE(std::filesystem::is_empty(temp_.File("d") + "/kv"));
  // What is asked for when it is forgotten already comes too late.
  std::promise<bool> other;
  EXPECT_FALSE(store_->Delete(0, "t", [&](bool durable) { other.set_value(durable); }).has_value());
  EXPECT_TRUE(other.get_future().get());
  LookAfter(6);
  EXPECT_EQ(Files(), 0);
}

TEST_F(SessionStoreKv, WhoDeletesWhatTheDiskDoesNotRemoveIsToldAndMayAskAgain) {
  EXPECT_EQ(Turn("s", 40, kPromised), Durability::kKv);
  disk_.Hang(StuckDisk::Stuck::kRemovesFail);
  const auto is_gone = [this] {
    std::promise<bool> told;
    EXPECT_FALSE(store_->Delete(0, "s", [&](bool gone) { told.set_value(gone); }).has_value());
    return told.get_future().get();
  };
  EXPECT_FALSE(is_gone());
  EXPECT_FALSE(store_->Get(0, "s").ok());
  EXPECT_TRUE(store_->HasLeftKv(0, "s"));
  EXPECT_FALSE(is_gone());
  disk_.Hang(StuckDisk::Stuck::kNothing);
  EXPECT_TRUE(is_gone());
  EXPECT_EQ(Files(), 0);
  EXPECT_FALSE(store_->HasLeftKv(0, "s"));
  EXPECT_EQ(store_->Delete(0, "s").value().code, "session_not_found");
}

// The same id, a turn of the same number, and another history: as after the log was lost, or put back.
TEST_F(SessionStoreKv, AFileOfAnotherHistoryIsNotGoneOnFrom) {
  EXPECT_EQ(Turn("s", 40, kPromised), Durability::kKv);
  const std::string kv = temp_.File("d") + "/kv", saved = temp_.File("saved");
  std::filesystem::copy(kv, saved);
  std::promise<bool> gone;
  EXPECT_FALSE(store_->Delete(0, "s", [&](bool durable) { gone.set_value(durable); }).has_value());
  EXPECT_TRUE(gone.get_future().get());
  parks_ = false;
  EXPECT_EQ(Turn("s", 41), Durability::kTokens);
  std::filesystem::copy(saved, kv, std::filesystem::copy_options::recursive);
  Restart();
  ApiResult<SessionTurn> turn = store_->Begin(kOwner, "s", true);
  EXPECT_EQ(turn.value().kv_file(), nullptr);
  EXPECT_EQ(turn.value().parked(), nullptr);
  EXPECT_EQ(kv_->counts().rejected[static_cast<size_t>(KvReject::kTokens)], 1u);
}

TEST_F(SessionStoreKv, WhatWaitsForItsKvIsBoundedAndATurnBeyondThatEndsWithItsTokens) {
  Close();
  promised_bytes_max_ = 200'000;
  Open();
  disk_.Hang(StuckDisk::Stuck::kWrites);
  std::vector<std::future<Durability>> turns;
  for (const char* id : {"s", "t", "u"}) turns.push_back(BeginTurn(id, 10'000, kPromised));
  EXPECT_EQ(turns[2].get(), Durability::kTokens) << "40 KB of it, and half of 200 is the tenant's";
  EXPECT_EQ(StateOf("u"), SessionState::kParked) << "it is in force";
  EXPECT_EQ(StateOf("t"), SessionState::kBusy);
  EXPECT_EQ(kv_->counts().passed, 1u);
  disk_.Hang(StuckDisk::Stuck::kNothing);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(turns[i].get(), Durability::kKv);
  EXPECT_EQ(Turn("u", 10'001, kPromised), Durability::kKv) << "what waited has given its part back";
}

TEST_F(SessionStoreKv, ATenantsLimitIsOfTokensAndKvTogether) {
  const SessionOwner owner = {.tenant = 0, .disk_bytes = 12'000, .keeps_kv = true};
  EXPECT_EQ(Turn("s", 40, owner), Durability::kTokens) << "a file has 16 KB";
  const SessionOwner more = {.tenant = 0, .disk_bytes = 40'000, .keeps_kv = true};
  EXPECT_EQ(Turn("s", 41, more), Durability::kKv);
  EXPECT_EQ(Turn("t", 41, more), Durability::kKv);
  EXPECT_EQ(Turn("u", 41, more), Durability::kKv);
  EXPECT_EQ(Files(), 2) << "the one used least recently went";
}

}  // namespace
}  // namespace hydrant
