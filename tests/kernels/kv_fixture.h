// A device with a small paged cache and sequences whose q, k, v are made up, for tests of the ops over cached keys and
// values.
#ifndef HYDRANT_TESTS_KERNELS_KV_FIXTURE_H_
#define HYDRANT_TESTS_KERNELS_KV_FIXTURE_H_

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/device.h"
#include "tests/kernels/normal_distribution.h"
#include "tests/kernels/tested_device.h"

namespace hydrant {

inline std::unique_ptr<DeviceBuffer> OnDevice(Device& device, std::span<const float> values) {
  auto buffer = device.Allocate(values.size_bytes());
  device.CopyToDevice(buffer->data(), values.data(), values.size_bytes());
  return buffer;
}

struct KvShape {
  int32_t layers = 1;
  int32_t kv_heads = 2;
  int32_t group = 3;
  int32_t head_dim = 16;
  KvType type = KvType::kF32;

  int32_t query_heads() const { return kv_heads * group; }
  int32_t cols() const { return (query_heads() + 2 * kv_heads) * head_dim; }
  int32_t out_cols() const { return query_heads() * head_dim; }
};

// Rotary angles of a head: of `dims` of its elements, or (0) of all but the last few, so that some are not rotated.
class Angles {
 public:
  Angles(int32_t head_dim, int32_t positions, int32_t dims = 0)
      : dims_(dims > 0 ? dims : head_dim - head_dim % 16 / 2) {
    for (int32_t i = 0; i < dims_ / 2; ++i) inv_freq_.push_back(std::pow(100.0, -2.0 * i / dims_));
    spec_ = {.dims = dims_, .inv_freq = inv_freq_, .positions_max = positions};
  }
  Angles(const Angles&) = delete;
  Angles& operator=(const Angles&) = delete;
  const RopeSpec& spec() const { return spec_; }

 private:
  int32_t dims_;
  std::vector<double> inv_freq_;
  RopeSpec spec_;
};

// What the model would compute for a sequence: one qkv row per token and layer.
class TokenStream {
 public:
  // `spread` scales the logits: their standard deviation is about spread * spread.
  TokenStream(const KvShape& shape, int32_t tokens, uint64_t seed, float spread = 1.5f) : shape_(shape) {
    std::mt19937_64 random(seed);
    NormalDistribution normal(0.0f, spread);
    qkv_.resize(static_cast<size_t>(tokens) * static_cast<size_t>(shape.layers * shape.cols()));
    for (float& x : qkv_) x = normal(random);
  }
  // Makes some tokens popular with every query, as real attention does: without it each new token's own probability makes
  // the one that leaves the recent window the victim nearly always. Adds `popularity` * N(0, 1) to a token's logits.
  void AddPopularity(float popularity, uint64_t seed) {
    std::mt19937_64 random(seed);
    NormalDistribution normal(0.0f, popularity);
    // All queries share a component along the first element; keys differ there.
    for (int32_t token = 0; token < tokens(); ++token) {
      for (int32_t layer = 0; layer < shape_.layers; ++layer) {
        for (int32_t head = 0; head < shape_.query_heads(); ++head) HeadAt(token, layer, head)[0] = 2.0f;
        for (int32_t head = 0; head < shape_.kv_heads; ++head) {
          K(token, layer, head)[0] = 0.5f * std::sqrt(static_cast<float>(shape_.head_dim)) * normal(random);
        }
      }
    }
  }
  int32_t tokens() const { return static_cast<int32_t>(std::ssize(qkv_) / (shape_.layers * shape_.cols())); }
  std::span<float> Row(int32_t token, int32_t layer) {
    const size_t cols = static_cast<size_t>(shape_.cols());
    return std::span(qkv_).subspan(static_cast<size_t>(token * shape_.layers + layer) * cols, cols);
  }
  std::span<float> Q(int32_t token, int32_t layer, int32_t kv_head) {
    const int32_t width = shape_.group * shape_.head_dim;
    return Row(token, layer).subspan(static_cast<size_t>(kv_head * width), static_cast<size_t>(width));
  }
  std::span<float> K(int32_t token, int32_t layer, int32_t kv_head) {
    return HeadAt(token, layer, shape_.query_heads() + kv_head);
  }
  std::span<float> V(int32_t token, int32_t layer, int32_t kv_head) {
    return HeadAt(token, layer, shape_.query_heads() + shape_.kv_heads + kv_head);
  }

 private:
  std::span<float> HeadAt(int32_t token, int32_t layer, int32_t head) {
    return Row(token, layer).subspan(static_cast<size_t>(head * shape_.head_dim), static_cast<size_t>(shape_.head_dim));
  }

  KvShape shape_;
  std::vector<float> qkv_;
};

// A sequence in progress, with the bookkeeping that block manager and scheduler do.
struct TestSequence {
  TokenStream* stream = nullptr;
  EvictionPolicy policy;
  int32_t state_row = 0;
  int32_t prompt_length = 0;
  std::vector<int32_t> block_table;

  int32_t live = 0;
  int32_t position = 0;  // logical length so far
  bool has_victim = false;

  int32_t Block(int32_t slot) const { return block_table[static_cast<size_t>(slot / kBlockSlots)]; }
};

// A sequence's share of a step: its next `tokens` prompt tokens, or one generated token and drafts behind it.
struct TestRow {
  TestSequence* sequence = nullptr;
  int32_t tokens = 1;
  bool prefill = false;
  bool sampled = false;  // its token is the one that was sampled for its state row
};

class KvFixture {
 public:
  // `drafts_max`: of a step.
  KvFixture(const KvShape& kv_shape, const TestedDevice& tested, int threads, int32_t blocks, int32_t state_rows = 8,
            int32_t tokens_max = 2048, int32_t drafts_max = 0)
      : shape(kv_shape), tokens_max_(tokens_max) {
    device = tested.make(threads);
    device->ReserveScratch({.tokens_max = tokens_max,
                            .rows_max = state_rows,
                            .slots_max = blocks * kBlockSlots,
                            .drafts_max = drafts_max,
                            .layer_heads = shape.layers * shape.kv_heads,
                            .query_heads = shape.query_heads(),
                            .head_dim = shape.head_dim,
                            .vocab = 16});
    KvCacheLayout& layout = kv.layout;
    layout = {.layers = shape.layers,
              .blocks = blocks,
              .kv_heads = shape.kv_heads,
              .head_dim = shape.head_dim,
              .type = shape.type,
              .state_rows = state_rows};
    kv.k = Allocate(layout.kv_bytes());
    kv.v = Allocate(layout.kv_bytes());
    kv.score = static_cast<float*>(Allocate(layout.score_count() * sizeof(float)));
    kv.position = static_cast<int32_t*>(Allocate(layout.score_count() * sizeof(int32_t)));
    kv.victim = static_cast<int32_t*>(Allocate(layout.victim_count() * sizeof(int32_t)));
    free_blocks_.resize(static_cast<size_t>(blocks));
    std::iota(free_blocks_.begin(), free_blocks_.end(), 0);
    std::shuffle(free_blocks_.begin(), free_blocks_.end(), std::mt19937_64(7));
  }

  // Position() and Positions() are logical ones under rolling policies, too. Before the first step.
  void Inspect() {
    kv.layout.inspected = true;
    kv.logical_position = static_cast<int32_t*>(Allocate(kv.layout.score_count() * sizeof(int32_t)));
  }

  // [query_heads]. Before the first step.
  void SetSinks(std::vector<float> values) {
    assert(std::ssize(values) == shape.query_heads());
    sink_values_ = std::move(values);
    buffers_.push_back(OnDevice(*device, sink_values_));
    sinks = static_cast<const float*>(buffers_.back()->data());
  }
  // About as large as logits; some are much larger: what such a head gives the slots decides nothing.
  void SetRandomSinks(uint64_t seed) {
    std::mt19937_64 random(seed);
    NormalDistribution normal(0.0f, 4.0f);
    std::vector<float> values(static_cast<size_t>(shape.query_heads()));
    for (float& value : values) value = normal(random) + (random() % 4 == 0 ? 12.0f : 0.0f);
    SetSinks(std::move(values));
  }
  // Those of a KV head's group; empty: there are none.
  std::vector<double> SinksOf(int32_t kv_head) const {
    if (sink_values_.empty()) return {};
    const auto first = sink_values_.begin() + kv_head * shape.group;
    return {first, first + shape.group};
  }

  // Fills the cache with what a former owner may have left.
  void Poison() {
    const auto fill = [](void* data, size_t bytes) { std::fill_n(static_cast<uint8_t*>(data), bytes, uint8_t{0xff}); };
    fill(kv.k, kv.layout.kv_bytes());  // NaN in every element type
    fill(kv.v, kv.layout.kv_bytes());
    fill(kv.score, kv.layout.score_count() * sizeof(float));
  }

  // `slots` is the most the sequence will occupy.
  TestSequence Sequence(TokenStream& stream, const EvictionPolicy& policy, int32_t prompt_length, int32_t state_row,
                        int32_t slots) {
    TestSequence sequence{
        .stream = &stream, .policy = policy, .state_row = state_row, .prompt_length = prompt_length, .block_table = {}};
    for (int32_t slot = 0; slot < slots; slot += kBlockSlots) {
      assert(!free_blocks_.empty());
      sequence.block_table.push_back(free_blocks_.back());
      free_blocks_.pop_back();
    }
    return sequence;
  }

  // One step: every layer's write and attention, then the cut of prompts that end above their budget. Returns the outputs
  // [layer][token][out_cols]; where `out_dtype` has 16 bits a layer's lie packed in the first half of its.
  std::vector<float> Step(std::span<const TestRow> test_rows, const RopeTable* rope = nullptr) {
    std::vector<BatchRow> rows;
    std::vector<int32_t> ids;
    for (const TestRow& row : test_rows) rows.push_back(Begin(row, ids));
    const int64_t device_rows = device->BeginStep({.token_ids = ids, .rows = rows});

    const size_t tokens = ids.size(), cols = static_cast<size_t>(shape.cols());
    const size_t layers = static_cast<size_t>(shape.layers), out_cols = static_cast<size_t>(shape.out_cols());
    assert(std::ssize(ids) <= device_rows && device_rows <= tokens_max_);
    const size_t layer_rows = static_cast<size_t>(device_rows);
    float* const all_qkv = Activations(layers * layer_rows * (cols + out_cols));
    float* const all_out = all_qkv + layers * layer_rows * cols;
    for (size_t layer = 0; layer < layers; ++layer) {
      for (size_t i = 0; i < test_rows.size(); ++i) {
        TestSequence& sequence = *test_rows[i].sequence;
        for (int32_t t = 0; t < test_rows[i].tokens; ++t) {
          const std::span<float> source = sequence.stream->Row(sequence.position + t, static_cast<int32_t>(layer));
          const size_t row = layer * layer_rows + static_cast<size_t>(rows[i].token_begin + t);
          std::copy(source.begin(), source.end(), all_qkv + row * cols);
        }
      }
    }
    // What the ops are given besides the step.
    const auto program =
        programs_.insert({all_qkv, rope, norms.q.weight, norms.k.weight, norms.balance, scale, softcap, window, sinks})
            .first;
    device->RunLayers(&*program, [&] {
      for (size_t layer = 0; layer < layers; ++layer) {
        const Matrix qkv{.data = all_qkv + layer * layer_rows * cols, .rows = device_rows, .cols = shape.cols()};
        const Matrix out{.data = all_out + layer * layer_rows * out_cols,
                         .dtype = out_dtype,
                         .rows = device_rows,
                         .cols = shape.out_cols()};
        device->RopeAndWriteKv(rope, norms, static_cast<int32_t>(layer), qkv, kv);
        device->Attention(rope, {scale, softcap, window, sinks}, static_cast<int32_t>(layer), qkv, kv, out);
      }
    });
    std::vector<ShrinkOp> cuts;
    for (size_t i = 0; i < test_rows.size(); ++i) End(test_rows[i], rows[i], cuts);
    if (!cuts.empty()) device->Shrink(cuts, kv);
    last_rows_ = rows;
    rotated.clear();
    std::vector<float> outputs;
    for (size_t layer = 0; layer < layers; ++layer) {
      const float *const qkv = all_qkv + layer * layer_rows * cols, *const out =
                                                                        all_out + layer * layer_rows * out_cols;
      rotated.insert(rotated.end(), qkv, qkv + tokens * cols);
      outputs.insert(outputs.end(), out, out + tokens * out_cols);
    }
    return outputs;
  }

  // The last step was of this sequence alone, and so many of its tokens stay.
  void KeepDrafts(TestSequence& sequence, int32_t kept) {
    device->KeepDrafts(last_rows_, {&kept, 1}, kv);
    const int32_t wrong = last_rows_.front().token_count - kept;
    sequence.live -= last_rows_.front().reuse_victim ? 0 : wrong;
    sequence.position -= wrong;
  }

  // Positions with which segments begin, ascending: where a policy pins.
  void SetSegments(std::vector<int32_t> starts) {
    segments = std::move(starts);
    segment_words_.assign(static_cast<size_t>(segments.back()) / 64 + 64, 0);
    for (int32_t start : segments) segment_words_[static_cast<size_t>(start / 64)] |= uint64_t{1} << (start % 64);
  }
  // True if the step that ended the sequence's prompt chose pins.
  static bool ChoosesPins(const TestSequence& sequence) {
    return sequence.policy.pin_rows > 0 && sequence.live > sequence.policy.keep() &&
           sequence.position == sequence.prompt_length;
  }

  // Score of a slot, and the position of its token.
  float& Score(const TestSequence& sequence, int32_t layer, int32_t kv_head, int32_t slot) {
    return kv.score[ScoreAt(sequence, layer, kv_head, slot)];
  }
  int32_t& Position(const TestSequence& sequence, int32_t layer, int32_t kv_head, int32_t slot) {
    int32_t* positions = kv.logical_position != nullptr ? kv.logical_position : kv.position;
    return positions[ScoreAt(sequence, layer, kv_head, slot)];
  }
  // Where the slot's key stands.
  int32_t CachedPosition(const TestSequence& sequence, int32_t layer, int32_t kv_head, int32_t slot) {
    return kv.position[ScoreAt(sequence, layer, kv_head, slot)];
  }
  int32_t VictimSlot(const TestSequence& sequence, int32_t layer, int32_t kv_head) const {
    return kv.victim[(sequence.state_row * shape.layers + layer) * shape.kv_heads + kv_head];
  }
  // Ascending.
  std::vector<int32_t> Positions(const TestSequence& sequence, int32_t layer, int32_t kv_head) {
    std::vector<int32_t> positions;
    for (int32_t slot = 0; slot < sequence.live; ++slot) {
      positions.push_back(Position(sequence, layer, kv_head, slot));
    }
    std::sort(positions.begin(), positions.end());
    return positions;
  }
  // [head_dim] of one slot.
  std::vector<float> ReadSlot(const TestSequence& sequence, bool value, int32_t layer, int32_t kv_head, int32_t slot) {
    std::vector<float> tile(static_cast<size_t>(kBlockSlots * shape.head_dim));
    device->ReadTile(kv, value, layer, sequence.Block(slot), kv_head, tile.data());
    const auto first = tile.begin() + slot % kBlockSlots * shape.head_dim;
    return std::vector<float>(first, first + shape.head_dim);
  }

  const KvShape shape;
  float scale = 0.25f;
  float softcap = 0.0f;  // these three: of every layer
  int32_t window = kNoWindow;
  const float* sinks = nullptr;  // in device memory; SetSinks sets them
  DType out_dtype = DType::kF32;
  std::unique_ptr<Device> device;
  KvCacheView kv;
  std::vector<float> rotated;     // qkv of the last step after rope, [layer][token][cols]
  HeadNorms norms;                // of every layer
  bool cut_prompts = true;        // false: the test calls Shrink itself
  std::vector<int32_t> segments;  // SetSegments

 private:
  void* Allocate(size_t bytes) {
    buffers_.push_back(device->Allocate(bytes));
    return buffers_.back()->data();
  }
  // Memory that stays where it is until more is wanted.
  float* Activations(size_t floats) {
    if (activations_.empty() || activations_.back()->bytes() < floats * sizeof(float)) {
      activations_.push_back(device->Allocate(2 * floats * sizeof(float)));
    }
    return static_cast<float*>(activations_.back()->data());
  }
  size_t ScoreAt(const TestSequence& sequence, int32_t layer, int32_t kv_head, int32_t slot) const {
    const size_t tile =
        static_cast<size_t>((sequence.Block(slot) * kv.layout.layers + layer) * shape.kv_heads + kv_head);
    return tile * kBlockSlots + static_cast<size_t>(slot % kBlockSlots);
  }

  BatchRow Begin(const TestRow& test_row, std::vector<int32_t>& ids) const {
    const TestSequence& sequence = *test_row.sequence;
    BatchRow row{{.state_row = sequence.state_row,
                  .position = sequence.position,
                  .live = sequence.live,
                  .prompt_length = sequence.prompt_length,
                  .prefill = test_row.prefill},
                 {.block_table = sequence.block_table},
                 /*token_begin=*/static_cast<int32_t>(ids.size()),
                 /*token_count=*/test_row.tokens,
                 sequence.policy};
    ids.resize(ids.size() + static_cast<size_t>(test_row.tokens), test_row.sampled ? kSampledId : 0);
    if (!test_row.prefill && sequence.policy.evicts) {
      row.reuse_victim = sequence.has_victim;
      row.choose_victim = row.live_after() > sequence.policy.keep();
    }
    const bool ends_prompt = test_row.prefill && row.position + row.token_count == row.prompt_length;
    if (ends_prompt && sequence.policy.pin_rows > 0 && row.live_after() > sequence.policy.keep()) {
      row.segment_starts = segment_words_;
    }
    return row;
  }

  void End(const TestRow& test_row, const BatchRow& row, std::vector<ShrinkOp>& cuts) const {
    TestSequence& sequence = *test_row.sequence;
    sequence.live = row.live_after();
    sequence.position += test_row.tokens;
    sequence.has_victim = row.choose_victim;
    const EvictionPolicy& policy = sequence.policy;
    if (!cut_prompts || !row.prefill || !policy.evicts) return;
    if (sequence.position < sequence.prompt_length || sequence.live <= policy.keep()) return;
    cuts.push_back({.live_from = sequence.live,
                    .live_to = policy.keep(),
                    .logical_length = sequence.position,
                    .prompt_cut = true,
                    .policy = policy,
                    .block_table = sequence.block_table});
    sequence.live = policy.keep();
  }

  const int32_t tokens_max_;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers_;
  std::vector<std::unique_ptr<DeviceBuffer>> activations_;  // the last is the one in use
  std::set<std::tuple<const float*, const RopeTable*, const float*, const float*, const float*, float, float, int32_t,
                      const float*>>
      programs_;
  std::vector<int32_t> free_blocks_;
  std::vector<float> sink_values_;
  std::vector<uint64_t> segment_words_;
  std::vector<BatchRow> last_rows_;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_KERNELS_KV_FIXTURE_H_
