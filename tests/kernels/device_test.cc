// What every device owes besides the arithmetic: a row after an end is fed like any other, and leaves no trace; blocks leave for
// the host's memory and come back; score blocks and blocks are filled from others.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/exported_block.h"
#include "kernels/kv_pieces.h"
#include "tests/kernels/kv_fixture.h"
#include "tests/kernels/tested_device.h"

namespace hydrant {
namespace {

constexpr int32_t kPrompt = 20, kTokens = 64, kIds = 16;

EvictionPolicy H2o(int32_t heavy, int32_t recent) { return {.evicts = true, .heavy = heavy, .recent = recent}; }

struct Case {
  std::string name;
  EvictionPolicy policy;
  int32_t steps = 0;  // before the end
};

std::vector<Case> Cases() {
  EvictionPolicy rolling = H2o(6, 6);
  rolling.rolling = true;
  EvictionPolicy sink = H2o(4, 8);
  sink.score_source = ScoreSource::kNone;
  return {{"everything is kept", {}, 3},
          {"a token more fits", H2o(20, 20), 3},
          {"the row would choose the first victim", H2o(12, 12), 4},
          {"a victim waits", H2o(8, 8), 5},
          {"a victim waits, unscored", sink, 5},
          {"a victim waits, ranks would fall", rolling, 5}};
}

class EndsTest : public testing::TestWithParam<TestedDevice> {
 protected:
  // Two sequences side by side, their prompts computed.
  struct Pair {
    Pair(const TestedDevice& tested, const KvShape& shape, const EvictionPolicy& policy)
        : fixture(shape, tested, 2, 16),
          streams{TokenStream(shape, kTokens, 1), TokenStream(shape, kTokens, 2)},
          sequences{fixture.Sequence(streams[0], policy, kPrompt, 1, kTokens),
                    fixture.Sequence(streams[1], policy, kPrompt, 4, kTokens)} {
      if (policy.rolling) {
        for (int32_t i = 0; i < shape.head_dim / 2; ++i) inv_freq.push_back(1.0 / (1 + i));
        rope = fixture.device->MakeRope({.dims = shape.head_dim, .inv_freq = inv_freq, .positions_max = kTokens});
      }
      for (TestSequence& sequence : sequences) Step({{&sequence, 16, true}});
      for (TestSequence& sequence : sequences) Step({{&sequence, kPrompt - 16, true}});
    }
    std::vector<float> Step(const std::vector<TestRow>& rows) { return fixture.Step(rows, rope.get()); }

    // The first sequence samples 3, the second one 5.
    void Sample(std::span<const int32_t> stop_ids) {
      std::vector<float> logits(2 * kIds, 0.0f);
      logits[3] = logits[kIds + 5] = 1.0f;
      const auto memory = OnDevice(*fixture.device, logits);
      const SamplingParams greedy{.temperature = 0.0f};
      const SampleRequest requests[] = {
          {.logits_row = 0, .params = &greedy, .state_row = sequences[0].state_row, .stop_ids = stop_ids},
          {.logits_row = 1, .params = &greedy, .state_row = sequences[1].state_row, .stop_ids = stop_ids}};
      SampleResult results[2];
      fixture.device->AwaitSample(
          fixture.device->Sample({.data = memory->data(), .rows = 2, .cols = kIds}, requests, results));
      EXPECT_EQ(results[0].id, 3);
      EXPECT_EQ(results[1].id, 5);
    }

    // All that the cache has of a sequence, and of so many slots after it.
    std::vector<float> Cache(const TestSequence& sequence, int32_t behind = 1) {
      std::vector<float> all;
      const KvShape& shape = fixture.shape;
      for (int32_t layer = 0; layer < shape.layers; ++layer) {
        for (int32_t head = 0; head < shape.kv_heads; ++head) {
          for (int32_t slot = 0; slot < sequence.live + behind; ++slot) {
            for (const bool value : {false, true}) {
              const std::vector<float> read = fixture.ReadSlot(sequence, value, layer, head, slot);
              all.insert(all.end(), read.begin(), read.end());
            }
            all.push_back(fixture.Score(sequence, layer, head, slot));
            all.push_back(static_cast<float>(fixture.CachedPosition(sequence, layer, head, slot)));
          }
          all.push_back(static_cast<float>(fixture.VictimSlot(sequence, layer, head)));
        }
      }
      return all;
    }

    std::vector<double> inv_freq;
    KvFixture fixture;
    TokenStream streams[2];
    TestSequence sequences[2];
    std::unique_ptr<RopeTable> rope;
  };
};

TEST_P(EndsTest, ARowBehindAnEndLeavesNoTrace) {
  for (const KvType type : kMovedTypes) {
    const KvShape shape{.layers = 2, .type = type};
    for (const Case& each : Cases()) {
      SCOPED_TRACE(each.name + ", " + KvTypeName(type));
      // Ends are looked at beside a sequence that goes on, and there is one more that never had such a neighbour.
      const std::vector<int32_t> stop_ids = {9, 3};
      Pair pair(GetParam(), shape, each.policy), alone(GetParam(), shape, each.policy);
      const auto both = [](Pair& of) { return std::vector<TestRow>{{&of.sequences[0]}, {&of.sequences[1]}}; };
      for (int32_t i = 0; i < each.steps; ++i) {
        pair.Step(both(pair));
        alone.Step(both(alone));
      }
      pair.Sample(stop_ids);
      const TestSequence ended = pair.sequences[0];
      const std::vector<float> before = pair.Cache(ended);
      const std::vector<TestRow> fed = {{.sequence = &pair.sequences[0], .sampled = true},
                                        {.sequence = &pair.sequences[1], .sampled = true}};
      const std::vector<float> out = pair.Step(fed);
      EXPECT_EQ(pair.Cache(ended), before);
      const std::vector<float> out_alone = alone.Step({{.sequence = &alone.sequences[1]}});
      EXPECT_EQ(pair.Cache(pair.sequences[1]), alone.Cache(alone.sequences[1])) << "its neighbour's went on";
      const auto cols = static_cast<size_t>(shape.out_cols());
      EXPECT_EQ(std::vector(out.begin() + static_cast<long>(cols), out.begin() + static_cast<long>(2 * cols)),
                std::vector(out_alone.begin(), out_alone.begin() + static_cast<long>(cols)));

      // The next one there starts anew.
      pair.sequences[0] = ended;
      pair.Sample({});
      pair.Step(fed);
      EXPECT_NE(pair.Cache(ended), before) << "without ends the same row would have changed something";
    }
  }
}

class StateTest : public EndsTest {
 protected:
  // The sequence leaves its blocks and its state row to what `other` has in its own, and goes on elsewhere.
  static void Swap(KvFixture& fixture, TestSequence& sequence, const TestSequence& other, int32_t state_row) {
    const KvCacheView& kv = fixture.kv;
    TestSequence moved = fixture.Sequence(*sequence.stream, sequence.policy, kPrompt, state_row, kTokens);
    const auto taken = [](const TestSequence& of) {
      return std::span(of.block_table).first(static_cast<size_t>(BlocksForSlots(of.live)));
    };
    const auto copy = [&](const TestSequence& from, std::vector<std::byte>* blocks, std::vector<std::byte>* state) {
      blocks->resize(taken(from).size() * kv.layout.block_bytes());
      state->resize(kv.layout.state_bytes());
      fixture.device->ExportBlocks(taken(from), taken(from), kv, blocks->data());
      fixture.device->ExportState(from.state_row, kv, state->data());
    };
    std::vector<std::byte> blocks, state, others_blocks, others_state;
    copy(sequence, &blocks, &state);
    copy(other, &others_blocks, &others_state);
    fixture.device->ImportBlocks(std::span(sequence.block_table).first(taken(other).size()), 1.0f, kv,
                                 others_blocks.data());
    fixture.device->ImportState(sequence.state_row, kv, others_state.data());
    moved.live = sequence.live;
    moved.position = sequence.position;
    moved.has_victim = sequence.has_victim;
    fixture.device->ImportBlocks(taken(moved), 1.0f, kv, blocks.data());
    fixture.device->ImportState(state_row, kv, state.data());
    sequence = moved;
  }
};

TEST_P(StateTest, ARowLeavesWithItsVictimsAndItsLastIdAndFillsAnother) {
  const KvShape shape{.layers = 2};
  Pair pair(GetParam(), shape, H2o(8, 8));
  for (int32_t i = 0; i < 3; ++i) pair.Step({{&pair.sequences[0]}, {&pair.sequences[1]}});
  KvFixture& fixture = pair.fixture;
  const KvCacheLayout& layout = fixture.kv.layout;
  const auto state_of = [&](int32_t row) {
    std::vector<int32_t> state(layout.state_bytes() / sizeof(int32_t) + 1, 77);
    fixture.device->ExportState(row, fixture.kv, reinterpret_cast<std::byte*>(state.data()));
    EXPECT_EQ(state.back(), 77);
    state.pop_back();
    return state;
  };
  const int32_t ids[] = {3, 5};
  for (const std::vector<int32_t>& stop_ids : {std::vector<int32_t>(), std::vector<int32_t>{9, 3}}) {
    pair.Sample(stop_ids);
    for (size_t i = 0; i < 2; ++i) {
      const TestSequence& sequence = pair.sequences[i];
      const std::vector<int32_t> state = state_of(sequence.state_row);
      EXPECT_EQ(state.back(), i == 0 && !stop_ids.empty() ? kNoNextId : ids[i]);
      ASSERT_EQ(state.size(), 5u);
      for (int32_t pair_of = 0; pair_of < 4; ++pair_of) {
        EXPECT_EQ(state[static_cast<size_t>(pair_of)], fixture.VictimSlot(sequence, pair_of / 2, pair_of % 2));
      }
    }
  }
  const std::vector<int32_t> ended = state_of(1), other = state_of(4), unused = state_of(5);
  fixture.device->ImportState(6, fixture.kv, reinterpret_cast<const std::byte*>(ended.data()));
  EXPECT_EQ(state_of(6), ended);
  EXPECT_EQ(state_of(1), ended);
  EXPECT_EQ(state_of(4), other);
  EXPECT_EQ(state_of(5), unused);
  EXPECT_NE(ended, other);
  // The row that would come after the end leaves no trace, as it would have left none where the id came from.
  pair.sequences[0].state_row = 6;
  const std::vector<float> before = pair.Cache(pair.sequences[0]);
  TestSequence behind = pair.sequences[0];
  pair.Step({{.sequence = &behind, .sampled = true}});
  EXPECT_EQ(pair.Cache(pair.sequences[0]), before);
}

TEST_P(StateTest, ASequenceGoesOnBitForBitInOtherBlocksAndAnotherRow) {
  for (const KvType type : kMovedTypes) {
    const KvShape shape{.layers = 2, .type = type};
    for (const Case& each : Cases()) {
      for (const int32_t steps : {-1, each.steps}) {  // after the prompt's last chunk
        if (GetParam().share > 1 && steps >= 0 && each.steps < 5) continue;
        SCOPED_TRACE(each.name + ", " + KvTypeName(type) + ", " + std::to_string(steps));
        Pair stays(GetParam(), shape, each.policy), moves(GetParam(), shape, each.policy);
        if (steps < 0) {
          // A third prompt beside the two, with half of it computed.
          for (Pair* pair : {&stays, &moves}) {
            pair->sequences[0] = pair->fixture.Sequence(pair->streams[0], each.policy, kPrompt, 3, kTokens);
            pair->Step({{&pair->sequences[0], 16, true}});
          }
        }
        const auto step = [&](Pair& of) {
          if (of.sequences[0].position < kPrompt) return of.Step({{&of.sequences[0], kPrompt - 16, true}});
          return of.Step({{&of.sequences[0]}, {&of.sequences[1]}});
        };
        for (int32_t i = 0; i < steps; ++i) EXPECT_EQ(step(moves), step(stays));
        Swap(moves.fixture, moves.sequences[0], moves.sequences[1], 6);
        for (int32_t i = 0; i < 4; ++i) {
          EXPECT_EQ(step(moves), step(stays));
          for (const int32_t which : {0, 1}) {
            EXPECT_EQ(moves.Cache(moves.sequences[which], 0), stays.Cache(stays.sequences[which], 0)) << which;
          }
        }
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryDevice, StateTest, testing::ValuesIn(TestedDevices()),
                         [](const auto& each) { return each.param.name; });

// Any bytes, but for scores, which are numbers.
void FillWithAnything(const KvCacheView& kv) {
  std::mt19937 random(5);
  const auto fill = [&](void* data, size_t bytes) {
    std::generate_n(static_cast<uint8_t*>(data), bytes, [&] { return static_cast<uint8_t>(random()); });
  };
  fill(kv.k, kv.layout.kv_bytes());
  fill(kv.v, kv.layout.kv_bytes());
  fill(kv.position, kv.layout.score_count() * sizeof(int32_t));
  if (kv.logical_position != nullptr) fill(kv.logical_position, kv.layout.score_count() * sizeof(int32_t));
  std::generate_n(kv.score, kv.layout.score_count(), [&] { return static_cast<float>(random() % 1000) / 64.0f; });
}

// All that a cache holds, to be changed as an op should change it.
struct CacheCopy {
  explicit CacheCopy(const KvCacheView& kv)
      : k(Bytes(kv.k, kv.layout.kv_bytes())),
        v(Bytes(kv.v, kv.layout.kv_bytes())),
        scores(kv.score, kv.score + kv.layout.score_count()),
        positions(kv.position, kv.position + kv.layout.score_count()) {
    if (kv.logical_position == nullptr) return;
    logical.assign(kv.logical_position, kv.logical_position + kv.layout.score_count());
  }
  bool operator==(const CacheCopy&) const = default;

  static std::vector<std::byte> Bytes(const void* data, size_t bytes) {
    const auto* first = static_cast<const std::byte*>(data);
    return {first, first + bytes};
  }
  // Block `to` of `blocks` becomes block `from`.
  template <typename T>
  static void Copy(std::vector<T>& values, int32_t blocks, int32_t from, int32_t to) {
    const auto each = static_cast<std::ptrdiff_t>(values.size()) / blocks;
    std::copy_n(values.begin() + from * each, each, values.begin() + to * each);
  }

  std::vector<std::byte> k, v;
  std::vector<float> scores;
  std::vector<int32_t> positions, logical;
};

class BlocksTest : public testing::TestWithParam<TestedDevice> {
 protected:
  static constexpr int32_t kBlocks = 12;
  static std::vector<std::unique_ptr<KvFixture>> Caches() {
    std::vector<std::unique_ptr<KvFixture>> caches;
    for (const bool inspected : {false, true}) {
      for (const KvType type : kMovedTypes) {
        const KvShape shape = {.layers = 3, .kv_heads = 2, .head_dim = 40, .type = type};
        caches.push_back(std::make_unique<KvFixture>(shape, GetParam(), 2, kBlocks));
        if (inspected) caches.back()->Inspect();
        FillWithAnything(caches.back()->kv);
      }
    }
    return caches;
  }
};

TEST_P(BlocksTest, ScoreBlocksBeginWithZerosOrAsAnotherOneIsThen) {
  // The fourth has what the third has just got, the last what the first has.
  const std::vector<ScoreInit> inits = {{-1, 3, 0}, {-1, 0, 48}, {7, 1, 100}, {1, 2, 1000}, {3, 11, 16}};
  for (const auto& fixture : Caches()) {
    CacheCopy expected(fixture->kv);
    const size_t slots = expected.scores.size() / kBlocks;
    for (const ScoreInit& init : inits) {
      for (size_t i = 0; i < slots; ++i) {
        const size_t to = static_cast<size_t>(init.to) * slots + i;
        expected.scores[to] = init.from < 0 ? 0.0f : expected.scores[static_cast<size_t>(init.from) * slots + i];
        expected.positions[to] = init.position + static_cast<int32_t>(i % kBlockSlots);
        if (!expected.logical.empty()) expected.logical[to] = expected.positions[to];
      }
    }
    fixture->device->InitScores(inits, fixture->kv);
    EXPECT_TRUE(CacheCopy(fixture->kv) == expected);
  }
}

TEST_P(BlocksTest, CopiesHaveEveryByteOfTheirBlocksAndScores) {
  const std::vector<BlockCopy> copies = {{4, 9, 6}, {0, 0, 8}, {11, 2, 1}};
  for (const auto& fixture : Caches()) {
    CacheCopy expected(fixture->kv);
    for (const BlockCopy& copy : copies) {
      CacheCopy::Copy(expected.k, kBlocks, copy.from, copy.to);
      CacheCopy::Copy(expected.v, kBlocks, copy.from, copy.to);
      CacheCopy::Copy(expected.scores, kBlocks, copy.from_score_block, copy.to);
      CacheCopy::Copy(expected.positions, kBlocks, copy.from_score_block, copy.to);
      CacheCopy::Copy(expected.logical, kBlocks, copy.from_score_block, copy.to);
    }
    fixture->device->CopyBlocks(copies, fixture->kv);
    EXPECT_TRUE(CacheCopy(fixture->kv) == expected);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryDevice, BlocksTest, testing::ValuesIn(TestedDevices()),
                         [](const auto& each) { return each.param.name; });

class ParkingTest : public testing::TestWithParam<TestedDevice> {};

// Blocks leave with any score blocks, one after the other in the order of kv_pieces.h, and come back into others.
TEST_P(ParkingTest, BlocksLeaveWithWhatIsBesideThemAndComeBackElsewhere) {
  for (const bool inspected : {false, true}) {
    for (const KvType type : kMovedTypes) {
      KvFixture fixture({.layers = 3, .kv_heads = 2, .head_dim = 40, .type = type}, GetParam(), 2, 12);
      if (inspected) fixture.Inspect();
      const KvCacheView& kv = fixture.kv;
      FillWithAnything(kv);
      const std::vector<int32_t> blocks = {7, 0, 11, 3}, score_blocks = {7, 2, 11, 9}, targets = {1, 10, 4, 5};
      const size_t block_bytes = kv.layout.block_bytes();
      std::vector<std::byte> parked(blocks.size() * block_bytes + 1, std::byte{0x77});
      fixture.device->ExportBlocks(blocks, score_blocks, kv, parked.data());
      EXPECT_EQ(parked.back(), std::byte{0x77});
      const std::byte* at = parked.data();
      for (size_t i = 0; i < blocks.size(); ++i) {
        for (const KvPiece& piece : KvPiecesOf(kv, blocks[i], score_blocks[i])) {
          EXPECT_EQ(std::memcmp(at, piece.data, piece.bytes), 0);
          at += piece.bytes;
        }
      }
      for (const float factor : {1.0f, 0.37f}) {
        fixture.device->ImportBlocks(targets, factor, kv, parked.data());
        at = parked.data();
        for (const int32_t target : targets) {
          // Waits for the device.
          float tile[kBlockSlots * 40];
          fixture.device->ReadTile(kv, false, 0, target, 0, tile);
          const KvPieces pieces = KvPiecesOf(kv, target, target);
          for (size_t piece = 0; piece < pieces.size(); ++piece) {
            std::vector<std::byte> expected(at, at + pieces[piece].bytes);
            if (piece == kScorePiece) {
              auto* scores = reinterpret_cast<float*>(expected.data());
              for (size_t i = 0; i < expected.size() / sizeof(float); ++i) scores[i] *= factor;
            }
            const auto* data = static_cast<const std::byte*>(pieces[piece].data);
            EXPECT_TRUE(std::equal(expected.begin(), expected.end(), data)) << piece;
            at += pieces[piece].bytes;
          }
        }
      }
    }
  }
}

// Which bytes are a slot's is the device's own: what it reads tells.
TEST_P(ParkingTest, SlotsThatAreClearedAreZeroForTheDeviceAndNoOthers) {
  constexpr int32_t kFrom = 3, kTo = 5, kDim = 40;
  for (const KvType type : kMovedTypes) {
    for (const int32_t first : {1, 6, 15}) {
      KvFixture fixture({.layers = 2, .kv_heads = 2, .head_dim = kDim, .type = type}, GetParam(), 2, 8);
      if (first == 6) fixture.Inspect();
      const KvCacheView& kv = fixture.kv;
      FillWithAnything(kv);
      std::vector<std::byte> block(kv.layout.block_bytes());
      const std::vector<int32_t> from = {kFrom}, to = {kTo};
      fixture.device->ExportBlocks(from, from, kv, block.data());
      ASSERT_TRUE(ClearSlots(fixture.device->kv_format(), kv.layout, first, block.data()));
      fixture.device->ImportBlocks(to, 1.0f, kv, block.data());
      for (int32_t layer = 0; layer < 2; ++layer) {
        for (int32_t head = 0; head < 2; ++head) {
          for (const bool value : {false, true}) {
            float before[kBlockSlots * kDim], after[kBlockSlots * kDim];
            fixture.device->ReadTile(kv, value, layer, kFrom, head, before);
            fixture.device->ReadTile(kv, value, layer, kTo, head, after);
            std::fill(before + first * kDim, before + kBlockSlots * kDim, 0.0f);
            EXPECT_EQ(std::memcmp(before, after, sizeof(before)), 0) << layer << head << value << first;
          }
          const int64_t at = kv.layout.score_offset(layer, kTo, head), of = kv.layout.score_offset(layer, kFrom, head);
          for (int32_t slot = 0; slot < kBlockSlots; ++slot) {
            EXPECT_EQ(kv.position[at + slot], slot < first ? kv.position[of + slot] : 0);
            const float score = slot < first ? kv.score[of + slot] : 0.0f;
            EXPECT_EQ(std::memcmp(&kv.score[at + slot], &score, sizeof(score)), 0);
            if (kv.logical_position == nullptr) continue;
            EXPECT_EQ(kv.logical_position[at + slot], slot < first ? kv.logical_position[of + slot] : 0);
          }
        }
      }
    }
  }
  EXPECT_FALSE(ClearSlots("cpu 2", KvCacheLayout(), 1, nullptr)) << "an order that nobody knows";
}

INSTANTIATE_TEST_SUITE_P(EveryDevice, ParkingTest, testing::ValuesIn(TestedDevices()),
                         [](const auto& each) { return each.param.name; });

INSTANTIATE_TEST_SUITE_P(EveryDevice, EndsTest, testing::ValuesIn(TestedDevices()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace hydrant
