#include "kernels/cuda/step_table.h"

#include <algorithm>
#include <cassert>

namespace hydrant::cuda {
namespace {

// Tables of 1,024 rows of 16,384 slots.
constexpr int64_t kTableBytes = int64_t{8} << 20;
// Spans and segments of eight prompts of 131,072 tokens in a step; of 64 of 16,384.
constexpr int64_t kKeyBytes = int64_t{1} << 18;

}  // namespace

StepTable::StepTable(cudaStream_t stream, const StepBounds& bounds, int64_t scratch_floats, const int32_t* sampled_ids)
    : query_heads_(bounds.query_heads),
      head_dim_(bounds.head_dim),
      scratch_floats_(scratch_floats),
      tokens_max_(bounds.tokens_max),
      uploads_(stream, static_cast<size_t>(PacketBytes(bounds)), kStepsInFlight) {
  view_.sampled_ids = sampled_ids;
}

int64_t StepTable::PacketBytes(const StepBounds& bounds) {
  const int64_t rows = bounds.rows_max, tokens = bounds.tokens_max;
  const int64_t tables =
      std::min(2 * rows * (bounds.slots_max / kBlockSlots + 1) * int64_t{sizeof(int32_t)}, kTableBytes);
  // A prompt's keys, which are scored and may choose pins, and the bits of its segments.
  const int64_t spans = 2 * (int64_t{bounds.slots_max} / (kSpanTiles * kBlockSlots) + 1) * int64_t{sizeof(PromptSpan)};
  const int64_t keys = std::min(rows * (spans + bounds.slots_max / 8 + int64_t{sizeof(uint64_t)}), kKeyBytes);
  return rows * static_cast<int64_t>(sizeof(DeviceRow) + sizeof(DecodeItem) + sizeof(int32_t)) +
         tokens * static_cast<int64_t>(2 * sizeof(int32_t) + sizeof(PromptSpan)) + tables + keys;
}

void StepTable::Fill(const StepBatch& batch) {
  rows_.clear();
  row_of_token_.clear();
  tables_.clear();
  snapshots_.clear();
  prompts_.clear();
  prompt_groups_.clear();
  pin_rows_.clear();
  pin_groups_.clear();
  decode_.clear();
  groups_.clear();
  group_floats_ = 0;
  adapted_ = false;
  for (const BatchRow& row : batch.rows) {
    const auto number = static_cast<int32_t>(rows_.size());
    assert(row.token_count >= 1 && (row.prefill || row.token_count == 1));
    rows_.push_back(ToRow(row));
    adapted_ |= row.adapter >= 0;
    row_of_token_.insert(row_of_token_.end(), static_cast<size_t>(row.token_count), number);
    if (!row.prefill) AddDecode(rows_.back(), number);
  }
  for (const bool rolls : {false, true}) AddPrompts(rolls);
  AddPins();
  assert(row_of_token_.size() == batch.token_ids.size());
  token_ids_.assign(batch.token_ids.begin(), batch.token_ids.end());
  if (prompt_groups_.empty() && groups_.size() == 1) Pad();

  uploads_.Begin(Uploads::PacketBytes(std::span(rows_)) + 2 * Uploads::PacketBytes(std::span(token_ids_)) +
                 Uploads::PacketBytes(std::span(snapshots_)) + Uploads::PacketBytes(std::span(tables_)) +
                 Uploads::PacketBytes(std::span(decode_)) + Uploads::PacketBytes(std::span(prompts_)) +
                 Uploads::PacketBytes(std::span(pin_rows_)));
  view_.rows = uploads_.Add<DeviceRow>(rows_);
  view_.token_ids = uploads_.Add<int32_t>(token_ids_);
  view_.row_of_token = uploads_.Add<int32_t>(row_of_token_);
  decode_items_ = uploads_.Add<DecodeItem>(decode_);
  prompt_spans_ = uploads_.Add<PromptSpan>(prompts_);
  pin_rows_on_device_ = uploads_.Add<int32_t>(pin_rows_);
  view_.snapshots = uploads_.Add<StepSnapshot>(snapshots_);
  view_.tables = uploads_.Add<int32_t>(tables_);
  uploads_.Send();
}

void StepTable::Pad() {
  const auto padded = static_cast<size_t>(std::min(PaddedRows(static_cast<int32_t>(rows_.size())), tokens_max_));
  rows_.resize(padded);
  token_ids_.resize(padded, 0);
  row_of_token_.resize(padded, -1);
  decode_.resize(padded);
  groups_.back().count = static_cast<int32_t>(padded);
}

std::optional<StepShape> StepTable::shape() const {
  if (!prompt_groups_.empty() || groups_.size() != 1) return std::nullopt;
  return StepShape{view_.rows, static_cast<int32_t>(decode_.size()), groups_.front().splits_max, groups_.front().rolls,
                   adapted_};
}

DeviceRow StepTable::ToRow(const BatchRow& row) {
  DeviceRow to = {};
  static_cast<RowCounts&>(to) = row;
  to.token_begin = row.token_begin;
  to.token_count = row.token_count;
  to.first_position = row.first_position();
  to.live_after = row.live_after();
  to.candidates_end = row.candidates_end();
  to.policy = row.policy;
  const bool scores = row.prefill && row.policy.scores();
  to.first_scored = scores ? row.first_scored() : row.position + row.token_count;
  to.first_pinning = row.chooses_pins() ? row.first_pinning() : row.position + row.token_count;
  to.pins = row.policy.pins();
  to.pins_hold = !row.prefill && row.pins_hold() ? 1 : 0;
  to.tables = static_cast<int64_t>(tables_.size());
  tables_.insert(tables_.end(), row.block_table.begin(), row.block_table.end());
  to.score_blocks = to.tables;
  if (!row.score_table.empty()) {
    assert(row.score_table.size() == row.block_table.size());
    to.score_blocks = static_cast<int64_t>(tables_.size());
    tables_.insert(tables_.end(), row.score_table.begin(), row.score_table.end());
  }
  to.first_snapshot = static_cast<int32_t>(snapshots_.size());
  to.snapshots = static_cast<int32_t>(row.snapshots.size());
  for (const ScoreSnapshot& snapshot : row.snapshots) {
    snapshots_.push_back({snapshot.slots, 0, static_cast<int64_t>(tables_.size())});
    tables_.insert(tables_.end(), snapshot.score_blocks.begin(), snapshot.score_blocks.end());
  }
  to.segment_starts = static_cast<int64_t>(tables_.size());
  for (const uint64_t word : row.segment_starts) {
    tables_.insert(tables_.end(), {static_cast<int32_t>(word), static_cast<int32_t>(word >> 32)});
  }
  return to;
}

void StepTable::AddPrompts(bool rolls) {
  PromptGroup group = {.first = static_cast<int32_t>(prompts_.size()), .rolls = rolls};
  const auto for_each_row = [&](auto function) {
    for (size_t i = 0; i < rows_.size(); ++i) {
      const DeviceRow& row = rows_[i];
      if (row.prefill && row.policy.rolling == rolls) function(row, static_cast<int32_t>(i));
    }
  };
  constexpr int32_t kSpanSlots = kSpanTiles * kBlockSlots;
  for_each_row([&](const DeviceRow& row, int32_t number) {
    // The last spans see the most keys: they go first.
    for (int32_t span = (row.live_after - 1) / kSpanSlots; span >= row.live / kSpanSlots; --span) {
      prompts_.push_back({number, span * kSpanTiles});
      ++group.queries;
    }
  });
  for_each_row([&](const DeviceRow& row, int32_t number) {
    if (row.first_scored >= row.position + row.token_count) return;
    group.scored += AddKeys(row, number);
  });
  if (group.queries > 0) prompt_groups_.push_back(group);
}

int32_t StepTable::AddKeys(const DeviceRow& row, int32_t number) {
  const int32_t spans = (row.live_after - 1) / (kSpanTiles * kBlockSlots) + 1;
  for (int32_t span = 0; span < spans; ++span) prompts_.push_back({number, span * kSpanTiles});
  return spans;
}

void StepTable::AddPins() {
  int64_t floats = 0;
  for (size_t i = 0; i < rows_.size(); ++i) {
    DeviceRow& row = rows_[i];
    if (!row.prefill || row.first_pinning >= row.position + row.token_count) continue;
    // No fewer than there are KV heads.
    const int64_t own = LogitFloats(row.live_after, query_heads_);
    assert(own <= scratch_floats_ && !row.policy.rolling);
    if (pin_groups_.empty() || floats + own > scratch_floats_) {
      pin_groups_.push_back(
          {.first = static_cast<int32_t>(prompts_.size()), .first_row = static_cast<int32_t>(pin_rows_.size())});
      floats = 0;
    }
    row.pin_sums = floats;
    floats += own;
    PinGroup& group = pin_groups_.back();
    group.spans += AddKeys(row, static_cast<int32_t>(i));
    pin_rows_.push_back(static_cast<int32_t>(i));
    ++group.rows;
  }
}

void StepTable::AddDecode(const DeviceRow& row, int32_t number) {
  const int64_t partials = PartialFloats(row.live_after, query_heads_, head_dim_);
  const int64_t logits = row.policy.scores() ? LogitFloats(row.live_after, query_heads_) : 0;
  assert(partials + logits <= scratch_floats_);
  // Rows that roll take another kernel, and what a row is computed with must not depend on its neighbours.
  const bool rolls = row.policy.rolling;
  if (groups_.empty() || groups_.back().rolls != rolls || group_floats_ + partials + logits > scratch_floats_) {
    groups_.push_back({.first = static_cast<int32_t>(decode_.size()), .rolls = rolls});
    group_floats_ = 0;
  }
  DecodeGroup& group = groups_.back();
  const int32_t splits = SplitsOf(row.live_after);
  decode_.push_back({number, splits, group_floats_, logits > 0 ? group_floats_ + partials : -1});
  group_floats_ += partials + logits;
  ++group.count;
  group.splits_max = std::max(group.splits_max, PaddedSplits(splits));
}

}  // namespace hydrant::cuda
