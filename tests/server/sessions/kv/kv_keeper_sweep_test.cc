#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/sessions/kv/kv_keeper.h"
#include "tests/server/sessions/journal/model_disk.h"
#include "tests/server/sessions/kv/keeping.h"
#include "tests/server/sessions/kv/kv_bytes.h"

namespace hydrant {
namespace {

// Nothing that a start knows comes from the process before it, and what is asked for does not wait for the sweep.
TEST_F(Keeping, ARestartFindsWhatTheLogKnowsAndRemovesTheRest) {
  Start();
  for (uint8_t session = 1; session <= 4; ++session) EXPECT_TRUE(Keep(session, 5));
  keeper_.reset();
  std::ofstream(path_ + "/" + KvFileName(BindingOf(5, 1).session, 1) + ".tmp") << "a write that was cut off";
  std::ofstream(path_ + "/notes.txt") << "somebody else's";
  log_.erase(BindingOf(2, 5).session);     // forgotten
  log_[BindingOf(3, 5).session].turn = 6;  // went on without its KV being written
  told_.clear();
  Open();
  EXPECT_EQ(keeper_->Open(BindingOf(1, 5).session, 5, [&] { return BindingOf(1, 5); })->header().live, kLive);
  Start();
  EXPECT_TRUE(Remove(4));
  EXPECT_TRUE(swept_.get_future().get());
  EXPECT_EQ(Told(1), 5u);
  EXPECT_EQ(Told(3), 0u);
  EXPECT_THAT(Files(), testing::UnorderedElementsAre(KvFileName(BindingOf(1, 5).session, 5), "notes.txt"));
  EXPECT_EQ(keeper_->counts().files, 1);
  EXPECT_TRUE(Has(1, 5));
}

// The sweep may take minutes, and what is to go is what was there: nothing that was written since.
TEST_F(Keeping, WhatIsToGoDoesNotWaitForTheSweepNorTakesWhatIsWrittenBeforeIt) {
  Start();
  for (uint8_t session = 1; session <= 3; ++session) EXPECT_TRUE(Keep(session, 5));
  keeper_.reset();
  Open();
  std::promise<std::vector<std::string>> left;
  std::future<bool> swept = swept_.get_future();
  keeper_->Remove(BindingOf(1, 5).session, [&](bool) {
    const bool waited = swept.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    left.set_value(waited ? std::vector<std::string>() : Files());
  });
  std::promise<bool> anew;
  keeper_->Write(WriteOf(1, 6), /*urgent=*/true, [&](bool durable) { anew.set_value(durable); });
  Start();
  EXPECT_THAT(left.get_future().get(), testing::UnorderedElementsAre(KvFileName(BindingOf(2, 5).session, 5),
                                                                     KvFileName(BindingOf(3, 5).session, 5)));
  EXPECT_TRUE(anew.get_future().get());
  EXPECT_TRUE(swept.get());
  EXPECT_EQ(keeper_->counts().files, 3);
  EXPECT_TRUE(Has(1, 6)) << "somebody was told that it is there";
  EXPECT_TRUE(Has(2, 5));
  EXPECT_FALSE(Has(1, 5));
}

// Nobody knows which key files need that it has not seen.
TEST_F(Keeping, ASweepThatCouldNotListIsNotAllOfThem) {
  ModelDisk disk;
  disk.fail_at = 0;
  Open(disk.Mount());
  Start();
  EXPECT_FALSE(swept_.get_future().get());
  EXPECT_EQ(keeper_->counts().errors, 1u);
  keeper_.reset();
}

// Sessions whose KV grows, of 300 KB a block.
class KeepingWhatGrows : public Keeping {
 protected:
  void SetUp() override {
    block_bytes_ = 300'000;
    bytes_max_ = waiting_bytes_max_ = reading_bytes_max_ = 16 << 20;
    // Positions that the first turn has, too.
    KvFileHeader header = HeaderOf(1, 200);
    header.binding.computed = 64;
    all_ = TinyPayload(header);
    Open();
  }
  KvFileHeader HeaderOf(uint64_t turn, int32_t live, int32_t token = 9) {
    KvFileHeader header = TinyHeader(live, block_bytes_);
    header.binding.session.fill(1);
    header.binding.turn = turn;
    header.binding.tokens = DigestOfTokens(std::vector<int32_t>(static_cast<size_t>(live + 5), token));
    return header;
  }
  bool KeepTurn(uint64_t turn, int32_t live, int32_t token = 9) {
    const KvFileHeader header = HeaderOf(turn, live, token);
    KvWrite write = WriteOf(header, std::span(all_).first(static_cast<size_t>(header.payload_bytes())), "t");
    write.tokens = std::make_shared<const std::vector<int32_t>>(static_cast<size_t>(live + 5), token);
    return Keep(std::move(write));
  }
  bool IsRight(uint64_t turn, int32_t live) {
    const KvBytes kv = ReadBack(HeaderOf(turn, live).binding);
    return std::ssize(kv.view()) == HeaderOf(turn, live).payload_bytes() &&
           std::memcmp(kv.view().data(), all_.data(), kv.size) == 0;
  }
  uint64_t written() { return keeper_->counts().written_bytes; }

  std::vector<std::byte> all_;
};

TEST_F(KeepingWhatGrows, ATurnWritesWhatItAddedAndAStartFindsWhatBelongsTogether) {
  Start();
  EXPECT_TRUE(KeepTurn(5, 64));
  EXPECT_TRUE(KeepTurn(6, 100));
  EXPECT_TRUE(KeepTurn(7, 112));
  const int64_t sum = HeaderOf(5, 64).payload_bytes() + 2 * HeaderOf(6, 100).payload_bytes() - (3 << 20);
  EXPECT_EQ(written(), static_cast<uint64_t>(sum));
  EXPECT_TRUE(IsRight(7, 112));
  KvCounts counts = keeper_->counts();
  EXPECT_EQ(counts.files, 1) << "of sessions";
  const auto on_disk = [this] {
    int64_t bytes = 0;
    for (const std::string& name : Files())
      bytes += static_cast<int64_t>(std::filesystem::file_size(path_ + "/" + name));
    return bytes;
  };
  EXPECT_EQ(counts.bytes, on_disk());
  EXPECT_EQ(Files().size(), 3u);
  keeper_.reset();
  std::filesystem::copy(path_ + "/" + KvFileName(HeaderOf(7, 1).binding.session, 7),
                        path_ + "/" + KvFileName(HeaderOf(7, 1).binding.session, 3));
  Open();
  Start();
  EXPECT_TRUE(swept_.get_future().get());
  EXPECT_EQ(Files().size(), 3u) << "what does not belong to them goes";
  EXPECT_EQ(keeper_->counts().bytes, on_disk());
  EXPECT_TRUE(IsRight(7, 112));
  EXPECT_TRUE(KeepTurn(8, 130));
  EXPECT_EQ(written(), static_cast<uint64_t>(HeaderOf(8, 130).payload_bytes() - (2 << 20))) << "a new process goes on";
  EXPECT_TRUE(IsRight(8, 130));
  // Another history, though its bytes are the same.
  EXPECT_TRUE(KeepTurn(9, 130, /*token=*/8));
  EXPECT_EQ(Files().size(), 1u);
  EXPECT_TRUE(KeepTurn(10, 140, /*token=*/8));
  EXPECT_EQ(Files().size(), 2u);
  EXPECT_TRUE(Remove(1));
  EXPECT_TRUE(Files().empty());
  EXPECT_EQ(keeper_->counts().bytes, 0);
}

TEST_F(KeepingWhatGrows, NothingGoesOnFromAFileThatCouldNotBeRead) {
  Start();
  EXPECT_TRUE(KeepTurn(5, 64));
  EXPECT_TRUE(KeepTurn(6, 100));
  const std::string path = path_ + "/" + KvFileName(HeaderOf(5, 64).binding.session, 5);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(500'000) << "x";
  EXPECT_FALSE(IsRight(6, 100));
  EXPECT_EQ(Rejected(KvReject::kDamaged), 1u);
  EXPECT_TRUE(KeepTurn(7, 112)) << "computed again, to the same bytes";
  EXPECT_EQ(Files().size(), 1u);
  EXPECT_TRUE(IsRight(7, 112));
  EXPECT_TRUE(KeepTurn(8, 130));
  EXPECT_EQ(Files().size(), 2u);
}

TEST_F(KeepingWhatGrows, NorDoesItWhereTheSweepHadYetToComeToTheFile) {
  Start();
  EXPECT_TRUE(KeepTurn(5, 64));
  EXPECT_TRUE(KeepTurn(6, 100));
  keeper_.reset();
  const std::string path = path_ + "/" + KvFileName(HeaderOf(5, 64).binding.session, 5);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(500'000) << "x";
  Open();
  {
    const std::lock_guard<std::mutex> nobody_hears_whose_it_is(mutex_);
    Start();
    EXPECT_FALSE(IsRight(6, 100));
  }
  EXPECT_TRUE(swept_.get_future().get());
  EXPECT_EQ(Rejected(KvReject::kDamaged), 1u);
  EXPECT_TRUE(KeepTurn(7, 112));
  EXPECT_EQ(Files().size(), 1u);
  EXPECT_TRUE(IsRight(7, 112));
}

TEST_F(KeepingWhatGrows, AStartWithOtherWeightsLeavesItsFilesAsTheyAre) {
  Start();
  for (const auto& [turn, live] : {std::pair(5, 64), std::pair(6, 100), std::pair(7, 112)})
    EXPECT_TRUE(KeepTurn(static_cast<uint64_t>(turn), live));
  const int64_t bytes = keeper_->counts().bytes;
  for (const bool other : {true, false}) {
    keeper_.reset();
    has_other_weights_ = other;
    Open();
    Start();
    EXPECT_TRUE(swept_.get_future().get());
    EXPECT_EQ(Files().size(), 3u);
    EXPECT_EQ(keeper_->counts().bytes, bytes);
    EXPECT_EQ(IsRight(7, 112), !other);
  }
  EXPECT_EQ(Rejected(KvReject::kModel), 0u);
}

// One call of the sweep's that fails takes nothing away that could be gone on from.
TEST_F(KeepingWhatGrows, ASweepThatCannotReadTakesNothingAway) {
  ModelDisk disk;
  Open(disk.Mount());
  Start();
  for (const auto& [turn, live] : {std::pair(5, 64), std::pair(6, 100), std::pair(7, 112)})
    EXPECT_TRUE(KeepTurn(static_cast<uint64_t>(turn), live));
  keeper_.reset();
  bool reached_end = false;
  for (int64_t k = 0; !reached_end; ++k) {
    ASSERT_LT(k, 60);
    disk.calls = 0;
    disk.fail_at = k;
    Open(disk.Mount());
    Start();
    swept_.get_future().wait();
    keeper_.reset();
    reached_end = disk.calls <= k;
    EXPECT_EQ(disk.names.size(), 3u) << "call " << k;
  }
  disk.fail_at = -1;
  Open(disk.Mount());
  Start();
  swept_.get_future().wait();  // the disk is one thread's at a time
  EXPECT_TRUE(IsRight(7, 112));
  keeper_.reset();
}

TEST_F(KeepingWhatGrows, HoldsOneDescriptorUntilItIsRead) {
  Start();
  for (const auto& [turn, live] : {std::pair(5, 64), std::pair(6, 100), std::pair(7, 112)})
    EXPECT_TRUE(KeepTurn(static_cast<uint64_t>(turn), live));
  ASSERT_EQ(OpenKvFiles(), 0);
  const KvBinding binding = HeaderOf(7, 112).binding;
  auto file = keeper_->Open(binding.session, binding.turn, [&] { return binding; });
  ASSERT_EQ(file->bases().size(), 2u);
  EXPECT_EQ(OpenKvFiles(), 1);
  std::promise<int> open;
  keeper_->Read(std::move(file), [&](const KvBytes& kv) { open.set_value(kv.empty() ? -1 : OpenKvFiles()); });
  EXPECT_EQ(open.get_future().get(), 0);
}

TEST_F(KeepingWhatGrows, NothingGoesOnFromAFileThatCouldNotBeSent) {
  Start();
  EXPECT_TRUE(KeepTurn(5, 64));
  const KvBinding binding = HeaderOf(5, 64).binding;
  std::fstream(path_ + "/" + KvFileName(binding.session, 5), std::ios::in | std::ios::out | std::ios::binary)
          .seekp(500'000)
      << "x";
  const std::unique_ptr<KvOutgoing> out = keeper_->Send(keeper_->Open(binding.session, 5, [&] { return binding; }));
  std::string piece;
  EXPECT_EQ(out->Next(&piece), KvReject::kNone) << "the head";
  EXPECT_EQ(out->Next(&piece), KvReject::kDamaged);
  EXPECT_EQ(Rejected(KvReject::kDamaged), 1u);
  EXPECT_TRUE(KeepTurn(6, 100));
  EXPECT_EQ(Files().size(), 1u);
  EXPECT_TRUE(IsRight(6, 100));
}

// A history with fewer tokens than are known of it: what stands for more is not its beginning.
TEST_F(KeepingWhatGrows, GoesOnFromNothingThatStandsForMoreTokens) {
  Start();
  EXPECT_TRUE(KeepTurn(5, 100));
  const KvFileHeader header = HeaderOf(6, 90);
  KvWrite write = WriteOf(header, std::span(all_).first(static_cast<size_t>(header.payload_bytes())), "t");
  write.tokens = std::make_shared<const std::vector<int32_t>>(200, 9);
  EXPECT_TRUE(Keep(std::move(write)));
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(KeepingWhatGrows, ItsOwnFilesMakeRoomAsOthersDo) {
  bytes_max_ = 3'100'000;
  Open();
  Start();
  EXPECT_TRUE(KeepTurn(5, 64));
  EXPECT_TRUE(KeepTurn(6, 100));
  EXPECT_TRUE(KeepTurn(7, 160)) << "nothing is left that it could go on from";
  EXPECT_EQ(Files().size(), 1u);
  EXPECT_TRUE(IsRight(7, 160));
  EXPECT_FALSE(KeepTurn(8, 180)) << "more than there may be";
}

}  // namespace
}  // namespace hydrant
