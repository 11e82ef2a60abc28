#include "kernels/cpu/attention/attention.h"

#include <emmintrin.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <thread>

#include "kernels/cpu/attention/drafts.h"
#include "kernels/cpu/attention/layer_view.h"
#include "kernels/cpu/attention/pins.h"

namespace hydrant {
namespace {

// Spins before a waiting thread offers its processor, which who it waits for may need.
constexpr int kSpinsBeforeYield = 64;

template <typename Condition>
void SpinUntil(Condition condition) {
  for (int spin = 0; !condition(); ++spin) {
    if (spin < kSpinsBeforeYield) {
      _mm_pause();
    } else {
      std::this_thread::yield();
    }
  }
}

int32_t Tiles(const BatchRow& row) {
  return (row.live + row.token_count - 1) / kBlockSlots - row.live / kBlockSlots + 1;
}

// The number of the row's last tiles, whose sums choose pins; 1 where nothing does. One task computes them, one after the other.
int32_t LastTiles(const BatchRow& row) {
  if (!row.chooses_pins()) return 1;
  const int32_t first_slot = row.live + row.first_pinning() - row.position;
  return (row.live + row.token_count - 1) / kBlockSlots - first_slot / kBlockSlots + 1;
}

// Whether values are finite in the cache; those that hardly are need not be.
bool AreFinite(KvType type, const float* values, int64_t count) {
  const float limit = type == KvType::kF16 ? 65504.0f : 3.38e38f;
  return std::all_of(values, values + count, [=](float value) { return std::abs(value) <= limit; });
}

// The token of rank `gap` has left: those above it move down. What lies beyond the live slots may be anything.
void CloseGap(const LayerView& view, const BatchRow& row, int32_t head, int32_t gap) {
  for (int32_t block = 0; block * kBlockSlots < row.live; ++block) {
    int32_t* ranks = view.kv().position + view.ScoreAt(row.score_blocks()[static_cast<size_t>(block)], head);
    for (int32_t i = 0; i < kBlockSlots; ++i) ranks[i] -= ranks[i] > gap ? 1 : 0;
  }
}

// Token `i` of a row takes a slot, with k and v [head_dim].
void PutToken(const AttentionKernels& kernels, const LayerView& view, const BatchRow& row, int32_t i, int32_t head,
              int32_t slot, const float* k, const float* v) {
  assert(slot >= 0 && slot < row.live_after());
  const KvCacheView& kv = view.kv();
  const int64_t block = row.block_table[static_cast<size_t>(slot / kBlockSlots)];
  const int32_t offset = slot % kBlockSlots;
  // The first token of a block clears what its former owner left in V: attention multiplies unoccupied slots by 0.
  const bool fresh = !row.reuse_victim && offset == 0;
  kernels.write_kv(kv.layout.type, k, v, kv.layout.head_dim, view.K(block, head), view.V(block, head), offset, fresh);
  const int64_t score_at = view.ScoreOf(row, head, slot);
  if (row.policy.rolling && row.reuse_victim) CloseGap(view, row, head, kv.position[score_at]);
  kv.position[score_at] = row.position_of(i);
  kv.score[score_at] = 0.0f;
  if (kv.logical_position != nullptr) kv.logical_position[score_at] = row.position + i;
}

// --- rope and KV writes -----------------------------------------------------------------------------------------------

class KvWriter {
 public:
  KvWriter(const AttentionCall& call, const HeadNorms& norms, const RowKernels& row_kernels)
      : call_(call),
        norms_(norms),
        row_kernels_(row_kernels),
        rope_(call.rope),
        view_(call.kv, call.layer),
        head_dim_(call.kv.layout.head_dim),
        kv_heads_(call.kv.layout.kv_heads),
        query_heads_(static_cast<int32_t>(call.qkv.cols / head_dim_) - 2 * kv_heads_) {}

  // Tokens [begin, end) of a row.
  void Write(const BatchRow& row, int32_t begin, int32_t end) const {
    for (int32_t i = begin; i < end; ++i) {
      float* q = static_cast<float*>(call_.qkv.data) + (int64_t{row.token_begin} + i) * call_.qkv.cols;
      float* k = q + int64_t{query_heads_} * head_dim_;
      const float* v = k + int64_t{kv_heads_} * head_dim_;
      const int32_t position = row.position_of(i);
      Normalize(norms_.q, q, query_heads_);
      Normalize(norms_.k, k, kv_heads_);
      if (norms_.balance != nullptr) Balance(q, k);
      if (rope_ != nullptr) {
        assert(position < rope_->reached() && rope_->dims() <= head_dim_);
        call_.kernels.rotate(q, row.policy.rolling ? query_heads_ : query_heads_ + kv_heads_, head_dim_, rope_->dims(),
                             rope_->cosine(position), rope_->sine(position));
      }
      // Nobody knows yet what a draft at the budget overwrites: attention writes it.
      if (row.reuse_victim && i > 0) continue;
      // The token before a draft multiplies the draft's values by an exact 0. Where that would not be 0 nobody may accept the draft:
      // without a query it ends up with no logits.
      const bool is_sound = row.drafts() == 0 || i == 0 || AreFinite(call_.kv.layout.type, v, KvCols());
      if (!is_sound) std::fill_n(q, query_heads_ * head_dim_, std::numeric_limits<float>::quiet_NaN());
      for (int32_t head = 0; head < kv_heads_; ++head) {
        const int32_t slot = row.reuse_victim ? *view_.Victim(row.state_row, head) : row.live + i;
        PutToken(call_.kernels, view_, row, i, head, slot, k + int64_t{head} * head_dim_,
                 is_sound ? v + int64_t{head} * head_dim_ : kNoElements.data());
      }
    }
  }

 private:
  int64_t KvCols() const { return int64_t{kv_heads_} * head_dim_; }

  void Normalize(const NormWeight& norm, float* x, int32_t heads) const {
    if (norm.weight == nullptr) return;
    const int64_t rows = norms_.over_heads ? 1 : heads, cols = int64_t{heads} * head_dim_ / rows;
    row_kernels_.norm(norm, x, cols, x, cols, rows, cols);
  }

  void Balance(float* q, float* k) const {
    for (int32_t head = 0; head < kv_heads_; ++head) {
      const float* factors = norms_.balance + int64_t{head} * head_dim_;
      for (int32_t i = 0; i < head_dim_; ++i) *k++ /= factors[i];
      for (int32_t query = 0; query < query_heads_ / kv_heads_; ++query) {
        for (int32_t i = 0; i < head_dim_; ++i) *q++ *= factors[i];
      }
    }
  }

  const AttentionCall& call_;
  const HeadNorms& norms_;
  const RowKernels& row_kernels_;
  const CpuRopeTable* rope_;
  const LayerView view_;
  const int32_t head_dim_;
  const int32_t kv_heads_;
  const int32_t query_heads_;
};

// --- attention --------------------------------------------------------------------------------------------------------

class AttentionRun {
 public:
  AttentionRun(const AttentionCall& call, const AttentionSpec& spec, Matrix out, AttentionScratch& scratch)
      : call_(call),
        spec_(spec),
        out_(out),
        scratch_(scratch),
        view_(call.kv, call.layer),
        head_dim_(call.kv.layout.head_dim),
        kv_heads_(call.kv.layout.kv_heads),
        group_(static_cast<int32_t>(out.cols / head_dim_) / kv_heads_) {
    assert(out.cols == int64_t{group_} * kv_heads_ * head_dim_ && out.rows == call.qkv.rows);
    assert(call.qkv.cols == out.cols + 2 * int64_t{kv_heads_} * head_dim_);
    assert(std::ssize(call.rows) <= scratch.rows_max && group_ * kv_heads_ <= scratch.query_heads);
    assert(head_dim_ <= scratch.head_dim && spec.window >= 1 && spec.scale > 0 && spec.softcap >= 0);
    AddPrompts();
    decode_rows_begin_ = rows_;
    AddDecodes();
    for (int64_t i = 0; i < std::ssize(call_.rows) * kv_heads_; ++i) {
      scratch_.tiles_added[static_cast<size_t>(i)].store(0, std::memory_order_relaxed);
    }
    for (int32_t i = 0; i < scratch_.places; ++i) {
      scratch_.decode[static_cast<size_t>(i)].unit.store(i, std::memory_order_relaxed);
    }
  }

  int64_t tasks() const { return tasks_; }

  // What every thread does.
  void Work(int thread) {
    while (true) {
      // Relaxed: the counter hands out numbers only; results are published through tiles_added, unit and the pool.
      const int64_t task = next_.fetch_add(1, std::memory_order_relaxed);
      if (task >= tasks_) return;
      const auto& first = scratch_.first_task;
      const int32_t row =
          static_cast<int32_t>(std::upper_bound(first.begin(), first.begin() + rows_, task) - first.begin()) - 1;
      const int64_t part = task - first[static_cast<size_t>(row)];
      if (row < decode_rows_begin_) {
        Prefill(row, static_cast<int32_t>(part / kv_heads_), static_cast<int32_t>(part % kv_heads_), thread);
      } else {
        Decode(row, part);
      }
    }
  }

 private:
  void AddPrompts() {
    for (size_t i = 0; i < call_.rows.size(); ++i) {
      const BatchRow& row = call_.rows[i];
      CheckRow(row);
      if (row.prefill) AddTasks(i, 0, Tiles(row) - LastTiles(row) + 1);
    }
  }

  // The first tokens of rows at their budgets, then their second ones, and so on: a draft there waits for the token before it. Others
  // read the same slots one right after the other.
  void AddDecodes() {
    int32_t most = 0;
    for (size_t i = 0; i < call_.rows.size(); ++i) {
      const BatchRow& row = call_.rows[i];
      if (row.prefill) continue;
      if (row.reuse_victim) most = std::max(most, row.token_count);
      for (int32_t token = 0; !row.reuse_victim && token < row.token_count; ++token) AddDecode(i, token);
    }
    for (int32_t token = 0; token < most; ++token) {
      for (size_t i = 0; i < call_.rows.size(); ++i) {
        const BatchRow& row = call_.rows[i];
        if (!row.prefill && row.reuse_victim && token < row.token_count) AddDecode(i, token);
      }
    }
  }
  void AddDecode(size_t row, int32_t token) {
    AddTasks(row, token, DecodeSplits(call_.rows[row].slots_with(token + 1)));
  }

  void CheckRow(const BatchRow& row) const {
    assert(row.token_count >= 1 && row.drafts() <= scratch_.drafts_max);
    assert(row.drafts() == 0 || row.reuse_victim == row.choose_victim);
    assert(row.live_after() <=
           (row.drafts() > 0 && row.policy.scores() ? scratch_.drafts.slots_max() : scratch_.slots_max));
    assert(std::ssize(row.block_table) * kBlockSlots >= row.live_after());
    assert(RopeOf(row).table == nullptr || row.live_after() <= call_.rope->reached());
  }

  // `parts`: of each KV head.
  void AddTasks(size_t row, int32_t token, int32_t parts) {
    assert(rows_ < std::ssize(scratch_.task_row));
    scratch_.task_row[static_cast<size_t>(rows_)] = static_cast<int32_t>(row);
    scratch_.task_token[static_cast<size_t>(rows_)] = token;
    scratch_.first_task[static_cast<size_t>(rows_)] = tasks_;
    ++rows_;
    tasks_ += int64_t{kv_heads_} * parts;
  }

  const BatchRow& Row(int32_t row) const {
    return call_.rows[static_cast<size_t>(scratch_.task_row[static_cast<size_t>(row)])];
  }
  std::atomic<int32_t>& Added(int32_t row, int32_t head) const {
    return scratch_.tiles_added[static_cast<size_t>(scratch_.task_row[static_cast<size_t>(row)] * kv_heads_ + head)];
  }
  RopeView RopeOf(const BatchRow& row) const {
    return row.policy.rolling && call_.rope != nullptr ? call_.rope->view() : RopeView();
  }
  // The lowest position that token `i` of the row sees; below 1: it sees all.
  int32_t FirstSeen(const BatchRow& row, int32_t i) const { return row.first_position() + i - (spec_.window - 1); }
  // In units of products that are not scaled yet.
  float ProductCap() const { return spec_.softcap / spec_.scale; }
  const float* SinksOf(int32_t head) const { return spec_.sinks == nullptr ? nullptr : spec_.sinks + head * group_; }
  const float* Query(int64_t token, int32_t head) const {
    return static_cast<const float*>(call_.qkv.data) + token * call_.qkv.cols + int64_t{head} * group_ * head_dim_;
  }
  float* Out(int64_t token, int32_t head) const {
    return static_cast<float*>(out_.data) + token * out_.cols + int64_t{head} * group_ * head_dim_;
  }

  void Prefill(int32_t row_number, int32_t task, int32_t head, int thread) {
    const BatchRow& row = Row(row_number);
    const int32_t tiles = Tiles(row), last = LastTiles(row);
    if (task < tiles - last || !row.chooses_pins()) return PrefillOne(row_number, task, head, thread);
    float* pin_sums = scratch_.PinSumsOf(thread);
    std::fill_n(pin_sums, WholeBlocks(row.live_after()), 0.0f);
    for (int32_t tile = tiles - last; tile < tiles; ++tile) PrefillOne(row_number, tile, head, thread, pin_sums);
    // The scores are complete: this has waited for those of the tiles before.
    ChoosePins(row, view_.Scores(row, head), FirstSeen(row, row.token_count - 1), pin_sums, scratch_.PinsOf(thread));
  }

  // `pin_sums`: gets what the tile adds to them; null: nothing of it counts.
  void PrefillOne(int32_t row_number, int32_t tile_number, int32_t head, int thread, float* pin_sums = nullptr) {
    const BatchRow& row = Row(row_number);
    const int32_t tile = row.live / kBlockSlots + tile_number;
    const int32_t begin = std::max(row.live - tile * kBlockSlots, 0);
    const int32_t end = std::min(row.live + row.token_count - tile * kBlockSlots, kBlockSlots);
    const int64_t token = row.token_begin + int64_t{tile} * kBlockSlots + begin - row.live;
    const PromptWeights weights(row);
    const int32_t turn = tile - weights.first_tile;
    const bool scored = weights.any && turn >= 0;
    const int32_t first_seen = FirstSeen(row, tile * kBlockSlots - row.live);
    float row_weights[kBlockSlots], pin_weights[kBlockSlots];
    if (scored) weights.Of(row, tile, row_weights);
    if (pin_sums != nullptr) RowWeights(row, tile, row.first_pinning(), row.policy.pin_decay, pin_weights);
    call_.kernels.prefill_tile({.tiles = view_.Tiles(row, head),
                                .q = Query(token, head),
                                .q_stride = call_.qkv.cols,
                                .out = Out(token, head),
                                .out_stride = out_.cols,
                                .group = group_,
                                .scale = spec_.scale,
                                .cap = ProductCap(),
                                .sinks = SinksOf(head),
                                .tile = tile,
                                .row_begin = begin,
                                .row_end = end,
                                .first_seen = first_seen,
                                .tile_begin = row.in_order() ? std::max(first_seen + begin, 0) / kBlockSlots : 0,
                                .row_weights = scored ? row_weights : nullptr,
                                .pin_weights = pin_sums != nullptr ? pin_weights : nullptr,
                                .policy = &row.policy,
                                .rope = RopeOf(row),
                                .scores = view_.Scores(row, head),
                                .scratch = scratch_.PrefillOf(thread),
                                .column_sums = scratch_.ColumnSumsOf(thread),
                                .pin_sums = pin_sums});
    if (!scored) return;
    // Tiles add to the scores in ascending order. Every tile before this one was handed out before it, so somebody is
    // working on it or has finished. Acquire and release hand the scores from one tile's thread to the next one's.
    std::atomic<int32_t>& added = Added(row_number, head);
    SpinUntil([&] { return added.load(std::memory_order_acquire) == turn; });
    call_.kernels.add_scores(view_.Scores(row, head), scratch_.ColumnSumsOf(thread), tile + 1, first_seen + end - 1);
    for (const ScoreSnapshot& snapshot : row.snapshots) {
      if (snapshot.slots == (tile + 1) * kBlockSlots) TakeSnapshot(row, snapshot, head);
    }
    added.store(turn + 1, std::memory_order_release);
  }

  void TakeSnapshot(const BatchRow& row, const ScoreSnapshot& snapshot, int32_t head) const {
    for (int32_t i = 0; i < snapshot.slots / kBlockSlots; ++i) {
      const size_t at = static_cast<size_t>(i);
      std::memcpy(call_.kv.score + view_.ScoreAt(snapshot.score_blocks[at], head),
                  call_.kv.score + view_.ScoreAt(row.score_blocks()[at], head), kBlockSlots * sizeof(float));
    }
  }

  // The factors [16] of a tile's rows in sums of rows from `first_position` on.
  static void RowWeights(const BatchRow& row, int32_t tile, int32_t first_position, float decay, float* weights) {
    for (int32_t r = 0; r < kBlockSlots; ++r) {
      const int32_t position = row.position + tile * kBlockSlots + r - row.live;
      if (position < first_position) {
        weights[r] = 0.0f;
      } else if (decay == 1.0f) {
        weights[r] = 1.0f;
      } else {
        weights[r] = static_cast<float>(std::pow(static_cast<double>(decay), row.prompt_length - 1 - position));
      }
    }
  }

  // The factors of a prompt's rows in its scores.
  struct PromptWeights {
    explicit PromptWeights(const BatchRow& row) {
      if (!row.policy.scores()) return;
      first_position = row.first_scored();
      const int32_t first_slot = row.live + first_position - row.position;
      any = first_slot < row.live + row.token_count;
      first_tile = first_slot / kBlockSlots;
    }
    void Of(const BatchRow& row, int32_t tile, float* weights) const {
      RowWeights(row, tile, first_position, row.policy.prompt_decay(), weights);
    }

    bool any = false;
    int32_t first_position = 0;
    int32_t first_tile = 0;
  };

  void Decode(int32_t row_number, int64_t part) {
    const int32_t token = scratch_.task_token[static_cast<size_t>(row_number)];
    const BatchRow& whole = Row(row_number);
    std::optional<BatchRow> alone;
    const BatchRow& row = whole.drafts() == 0 ? whole : alone.emplace(whole.Alone(token));
    const int32_t live = row.live_after(), splits = DecodeSplits(live);
    const int32_t head = static_cast<int32_t>(part / splits), split = static_cast<int32_t>(part % splits);
    const int64_t unit = int64_t{row_number - decode_rows_begin_} * kv_heads_ + head;
    AttentionScratch::DecodePlace& place = scratch_.decode[static_cast<size_t>(unit % scratch_.places)];
    // The unit that had the place before was handed out before this one and is being finished. Acquire pairs with the
    // release below: its reads are over.
    SpinUntil([&] { return place.unit.load(std::memory_order_acquire) == unit; });

    // Drafts that score do so one after the other: each goes on from what the one before it leaves, which was handed out before it. At
    // the budget it sees the slots, too, as that one leaves them, with its own token in the place of a victim.
    const bool in_turn = whole.drafts() > 0 && (row.policy.scores() || row.reuse_victim);
    std::atomic<int32_t>& joined = Added(row_number, head);
    const auto await_turn = [&] { SpinUntil([&] { return joined.load(std::memory_order_acquire) == token; }); };
    if (in_turn && row.reuse_victim) await_turn();

    const int32_t first_seen = FirstSeen(row, 0);
    const bool hides = first_seen > 0;
    int32_t begin = split * kDecodeSplitSlots;
    // Without scores nobody asks for the weights of hidden slots, so their tiles are left out.
    if (hides && !row.policy.scores() && row.in_order())
      begin = std::max(begin, first_seen / kBlockSlots * kBlockSlots);
    call_.kernels.decode_split({.tiles = view_.Tiles(row, head),
                                .q = Query(row.token_begin, head),
                                .group = group_,
                                .scale = spec_.scale,
                                .cap = ProductCap(),
                                .slot_begin = begin,
                                .slot_end = DecodeSplitEnd(kDecodeSplitSlots, split, splits, live),
                                .weights = place.weights + begin,
                                .weights_stride = scratch_.slots_max,
                                .largest = place.largest + int64_t{split} * group_,
                                .total = place.total + int64_t{split} * group_,
                                .out = place.out + int64_t{split} * group_ * head_dim_,
                                .rope = RopeOf(row),
                                .first_seen = first_seen,
                                .scores = hides || row.policy.scores() || row.choose_victim || row.policy.rolling
                                              ? view_.Scores(row, head)
                                              : ScoreView()});
    // Acquire-release: the thread that finishes the last split sees what the others wrote.
    if (place.splits_done.fetch_add(1, std::memory_order_acq_rel) + 1 != splits) return;

    float* draft_scores = nullptr;
    if (in_turn && !row.reuse_victim) await_turn();
    if (token > 0 && row.policy.scores()) draft_scores = BeginDraftScores(row, token, head);
    call_.kernels.decode_join({.group = group_,
                               .head_dim = head_dim_,
                               .scale = spec_.scale,
                               .splits = splits,
                               .live = live,
                               .weights = place.weights,
                               .weights_stride = scratch_.slots_max,
                               .largest = place.largest,
                               .total = place.total,
                               .split_out = place.out,
                               .sinks = SinksOf(head),
                               .out = Out(row.token_begin, head),
                               .policy = &row.policy,
                               .pins_hold = row.pins_hold(),
                               .choose_victim = row.choose_victim,
                               .candidates_end = row.candidates_end(),
                               .first_seen = first_seen,
                               .scores = view_.Scores(row, head),
                               .draft_scores = draft_scores,
                               .victim = view_.Victim(row.state_row, head)});
    if (row.reuse_victim && token + 1 < whole.token_count) OverwriteVictim(whole, token + 1, head);
    if (in_turn) joined.store(token + 1, std::memory_order_release);
    // Relaxed, then release: whoever sees the new unit sees the counter at 0.
    place.splits_done.store(0, std::memory_order_relaxed);
    place.unit.store(unit + scratch_.places, std::memory_order_release);
  }

  // A draft takes the slot of the victim that the token before it chose.
  void OverwriteVictim(const BatchRow& row, int32_t token, int32_t head) const {
    const int32_t slot = *view_.Victim(row.state_row, head), draft = row.draft_begin + token - 1;
    SaveToken(view_, row, head, slot, scratch_.drafts.At(draft, call_.layer * kv_heads_ + head));
    const float* q = static_cast<const float*>(call_.qkv.data) + (int64_t{row.token_begin} + token) * call_.qkv.cols;
    const float* k = q + (int64_t{kv_heads_} * group_ + head) * head_dim_;
    PutToken(call_.kernels, view_, row, token, head, slot, k, k + int64_t{kv_heads_} * head_dim_);
  }

  // The scores as they are before draft `token` of a row, of which `row` is the part, scores: those of the drafts' own slots are
  // 0 since their keys were written.
  float* BeginDraftScores(const BatchRow& row, int32_t token, int32_t head) {
    const int32_t layer_head = call_.layer * kv_heads_ + head, draft = row.draft_begin + token - 1;
    float* to = scratch_.drafts.ScoresOf(draft, layer_head);
    const int64_t blocks = BlocksForSlots(row.live_after());
    for (int64_t block = 0; block < blocks; ++block) {
      const float* from = call_.kv.score + view_.ScoreAt(row.score_blocks()[static_cast<size_t>(block)], head);
      // A block that the draft before had no part in.
      const bool is_new = block * kBlockSlots >= row.live;
      if (token > 1 && !is_new) from = scratch_.drafts.ScoresOf(draft - 1, layer_head) + block * kBlockSlots;
      std::memcpy(to + block * kBlockSlots, from, kBlockSlots * sizeof(float));
    }
    if (row.reuse_victim) to[scratch_.drafts.At(draft, layer_head)->slot] = 0.0f;
    return to;
  }

  const AttentionCall& call_;
  const AttentionSpec spec_;
  const Matrix out_;
  AttentionScratch& scratch_;
  const LayerView view_;
  const int32_t head_dim_;
  const int32_t kv_heads_;
  const int32_t group_;
  int32_t rows_ = 0;  // rows in scratch_.task_row: prefill first
  int32_t decode_rows_begin_ = 0;
  int64_t tasks_ = 0;
  alignas(64) std::atomic<int64_t> next_{0};
};

// Tokens below which handing out the writes costs more than the writes.
constexpr int64_t kParallelWrites = 4;

}  // namespace

int32_t DecodeSplits(int32_t live) { return DecodeSplitCount(kDecodeSplitSlots, kDecodeTailSlots, live); }

void RopeAndWriteKv(const AttentionCall& call, const HeadNorms& norms, const RowKernels& row_kernels,
                    ThreadPool& pool) {
  if (call.rope != nullptr) {
    int64_t end = 0;
    for (const BatchRow& row : call.rows) end = std::max(end, int64_t{row.position_of(row.token_count - 1)} + 1);
    call.rope->Reach(end);
  }
  const KvWriter writer(call, norms, row_kernels);
  // A unit is the tokens of a row that share a block, so that no two threads touch one tile.
  const auto units_of = [](const BatchRow& row) { return row.reuse_victim ? 1 : Tiles(row); };
  int64_t units = 0;
  for (const BatchRow& row : call.rows) units += units_of(row);
  pool.ParallelFor(units, call.qkv.rows <= kParallelWrites ? units : 1, [&](int64_t begin, int64_t end, int) {
    int64_t first = 0;  // unit of the row
    for (const BatchRow& row : call.rows) {
      const int64_t count = units_of(row);
      for (int64_t unit = std::max(begin, first); unit < std::min(end, first + count); ++unit) {
        const int32_t tile = row.live / kBlockSlots + static_cast<int32_t>(unit - first);
        const int32_t token_end = row.reuse_victim ? row.token_count : (tile + 1) * kBlockSlots - row.live;
        const int32_t token_begin = row.reuse_victim ? 0 : std::max(token_end - kBlockSlots, 0);
        writer.Write(row, token_begin, std::min(token_end, row.token_count));
      }
      first += count;
    }
  });
}

void Attend(const AttentionCall& call, const AttentionSpec& spec, Matrix out, ThreadPool& pool,
            AttentionScratch& scratch) {
  AttentionRun run(call, spec, out, scratch);
  if (run.tasks() == 1) {
    run.Work(0);
  } else {
    pool.Run([&](int thread) { run.Work(thread); });
  }
}

}  // namespace hydrant
