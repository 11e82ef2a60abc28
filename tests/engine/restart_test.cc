// A session whose KV leaves the process: what was parked goes into a file and comes back in another engine, which then says bit for bit
// what the first one would have said.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "server/sessions/kv/kv_file.h"
#include "tests/engine/engine_harness.h"

namespace hydrant {
namespace {

constexpr uint64_t kSessionKept = 5;
constexpr char kModelKept[] = "gqa_tied";

struct KeptPolicy {
  const char* name;
  EvictionPolicy policy;
  int32_t beta = 0;
  int32_t floor = 0;
};

std::vector<KeptPolicy> KeptPolicies() {
  const EvictionPolicy h2o{.evicts = true, .heavy = 32, .recent = 31};
  EvictionPolicy window = h2o, rolling = h2o, decays = h2o;
  window.score_source = ScoreSource::kNone;
  rolling.rolling = true;
  decays.decay = 15.0f / 16;
  return {{"full", EvictionPolicy()}, {"h2o", h2o},          {"window", window},     {"rolling", rolling},
          {"decays", decays},         {"periodic", h2o, 24}, {"elastic", h2o, 0, 20}};
}

std::vector<int32_t> MadeUpIds(uint32_t seed, int32_t length) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids(static_cast<size_t>(length));
  for (int32_t& id : ids) id = std::uniform_int_distribution<int32_t>(2, 287)(random);
  return ids;
}

// Through a file, as the keeper writes and reads it.
KvBytes ThroughAFile(const KvBytes& kv, int64_t block_bytes) {
  KvFileHeader header;
  header.format.device = "cpu 1";
  header.format.layers = header.format.kv_heads = header.format.head_dim = 1;
  header.format.block_bytes = block_bytes;
  header.binding.turn = 1;
  header.binding.computed = kv.computed;
  header.live = kv.live;
  std::string file = EncodeKvHead(header, kv.view());
  const std::string trailer = EncodeKvTrailer(header, file);
  file.append(reinterpret_cast<const char*>(kv.bytes.get()), kv.size).append(trailer);
  KvFileHeader read;
  std::string_view payload;
  EXPECT_EQ(ReadKvFile(file, header.format, &header.binding, &read, &payload), KvReject::kNone);
  const auto bytes = std::make_shared<std::byte[]>(payload.size());
  std::memcpy(bytes.get(), payload.data(), payload.size());
  return {bytes, payload.size(), read.binding.computed, read.live};
}

class KeptChat {
 public:
  explicit KeptChat(const KeptPolicy& policy) : policy_(policy) { Start(); }

  // The next turn; its first one among others for whom an elastic budget falls.
  Generation Turn() {
    const std::vector<int32_t> said = MadeUpIds(100 + turn_, turn_ == 0 ? 61 : 9);
    history_.insert(history_.end(), said.begin(), said.end());
    SequenceRequest request = With(Greedy(1000 + turn_, history_, turn_ == 0 ? 60 : 30), policy_.policy, policy_.beta);
    if (policy_.floor > 0) request.request.budget.floor = policy_.floor;
    request.logprobs = 0;
    request.request.session = kSessionKept;
    request.request.resumes = turn_;
    request.request.turn = ++turn_;
    std::vector<SequenceRequest> requests = {request};
    std::vector<int> arrivals = {0};
    for (uint64_t i = 0; policy_.floor > 0 && turn_ == 1 && i < 4; ++i) {
      const EvictionPolicy h2o{.evicts = true, .heavy = 32, .recent = 31};
      requests.push_back(With(Greedy(1 + i, MadeUpIds(static_cast<uint32_t>(i), 60), 80), h2o));
      arrivals.push_back(static_cast<int>(10 * i));
    }
    Generation generation = harness_->Run(requests, arrivals).front();
    const std::vector<int32_t> answer = generation.tokens();
    history_.insert(history_.end(), answer.begin(), answer.end());
    return generation;
  }

  // Another engine, of which only what is in the file is known.
  void Restart() {
    const KvBytes kv = Parked();
    ASSERT_FALSE(kv.empty());
    const auto blocks = static_cast<size_t>(BlocksForSlots(kv.live));
    const KvBytes read = ThroughAFile(kv, static_cast<int64_t>(kv.size / blocks));
    Start();
    EXPECT_TRUE(harness_->engine().Adopt({kSessionKept, turn_}, 0, read));
  }

  KvBytes Parked() {
    bool is_coming = false;
    KvBytes kv = harness_->engine().ReadParked({kSessionKept, turn_}, &is_coming);
    EXPECT_FALSE(is_coming);
    return kv;
  }

 private:
  void Start() {
    harness_ = std::make_unique<EngineHarness>(
        GoldenPath(kModelKept),
        HarnessOptions{
            .dtype = DType::kBF16, .threads = 1, .blocks = 18, .prefill_tokens_max = 64, .parked_blocks_max = 64});
  }

  const KeptPolicy policy_;
  std::unique_ptr<EngineHarness> harness_;
  std::vector<int32_t> history_;
  uint64_t turn_ = 0;
};

TEST(Restart, ASessionGoesOnBitForBitFromWhatWasWritten) {
  for (const KeptPolicy& policy : KeptPolicies()) {
    SCOPED_TRACE(policy.name);
    KeptChat stays(policy), restarts(policy);
    for (int turn = 0; turn < 3; ++turn) {
      if (turn > 0) restarts.Restart();
      const Generation expected = stays.Turn(), generation = restarts.Turn();
      EXPECT_EQ(generation.restored > 0, turn > 0);
      EXPECT_EQ(generation.restored, expected.restored);
      EXPECT_EQ(generation.tokens(), expected.tokens());
      for (size_t i = 0; i < expected.sampled.size(); ++i) {
        ASSERT_EQ(generation.sampled[i].logprob, expected.sampled[i].logprob) << "turn " << turn << ", token " << i;
      }
      if (policy.floor > 0 && turn == 0) {
        EXPECT_LT(expected.budget, 63) << "else nothing was lowered";
      }
      // Which tokens each layer and head kept, with their scores, and every key and value.
      const KvBytes one = stays.Parked(), other = restarts.Parked();
      ASSERT_EQ(one.live, other.live);
      ASSERT_EQ(one.size, other.size);
      const size_t whole =
          one.size / static_cast<size_t>(BlocksForSlots(one.live)) * static_cast<size_t>(one.live / kBlockSlots);
      EXPECT_EQ(std::memcmp(one.bytes.get(), other.bytes.get(), whole), 0) << "in the blocks that are full";
    }
  }
}

TEST(Restart, WhatIsNoKvOfThisModelIsNotParked) {
  KeptChat chat(KeptPolicies().front());
  chat.Turn();
  KvBytes kv = chat.Parked();
  EngineHarness other(GoldenPath(kModelKept), {.dtype = DType::kBF16, .blocks = 16, .parked_blocks_max = 4});
  EXPECT_FALSE(other.engine().Adopt({1, 1}, 0, kv)) << "more than there is room for";
  EngineHarness wide(GoldenPath(kModelKept), {.dtype = DType::kF32, .blocks = 16, .parked_blocks_max = 64});
  EXPECT_FALSE(wide.engine().Adopt({1, 1}, 0, kv)) << "blocks of another size";
  EXPECT_EQ(wide.engine().counters().parked_blocks, 0);
}

}  // namespace
}  // namespace hydrant
