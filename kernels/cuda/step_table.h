// A step's batch on its way to the device, with the work of its attention laid out.
//
// Thread: engine.
#ifndef HYDRANT_KERNELS_CUDA_STEP_TABLE_H_
#define HYDRANT_KERNELS_CUDA_STEP_TABLE_H_

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/step_view.h"
#include "kernels/step_batch.h"

namespace hydrant::cuda {

// Decode rows whose partial outputs and logits fit the scratch memory together. They are worked on one group after another.
struct DecodeGroup {
  int32_t first = 0;  // of the decode items
  int32_t count = 0;
  int32_t splits_max = 0;
  bool rolls = false;  // its rows' policies do
};

// Prompts whose rows' policies all roll, or none does.
struct PromptGroup {
  int32_t first = 0;  // of the prompt spans: first queries, then keys that get scores
  int32_t queries = 0;
  int32_t scored = 0;
  bool rolls = false;
};

// Prompts that choose pins, as many as have room for their sums in the scratch memory together.
struct PinGroup {
  int32_t first = 0;  // of the prompt spans
  int32_t spans = 0;
  int32_t first_row = 0;  // of the rows that choose pins
  int32_t rows = 0;
};

// Rows that a step of `rows` generated tokens is padded to: exact up to four, then steps of an eighth to a quarter, so
// that few graphs serve every batch.
constexpr int32_t PaddedRows(int32_t rows) {
  if (rows <= 4) return rows;
  int32_t step = 4;
  while (step * 8 < rows) step *= 2;
  return (rows + step - 1) / step * step;
}

// Splits that a step's attention is launched with: blocks beyond a row's own end at once.
constexpr int32_t PaddedSplits(int32_t splits) { return std::bit_ceil(static_cast<uint32_t>(splits)); }

// A step that only generates: what is launched depends on nothing else, as long as the memory is the same.
struct StepShape {
  const DeviceRow* memory = nullptr;
  int32_t rows = 0;    // padded
  int32_t splits = 0;  // padded
  bool rolls = false;
  bool adapted = false;  // a row has an adapter: products are others

  bool operator==(const StepShape&) const = default;
};

class StepTable {
 public:
  // `scratch_floats` holds the partial outputs and logits of a group; at least those of the largest row. No step is padded
  // to more than bounds.tokens_max.
  // `sampled_ids` [rows_max], by state row: where kSampledId is found.
  StepTable(cudaStream_t stream, const StepBounds& bounds, int64_t scratch_floats,
            const int32_t* sampled_ids = nullptr);
  // Device memory that is taken at once: enough for most steps. Long tables of many rows take more when they come.
  static int64_t PacketBytes(const StepBounds& bounds);

  // The batch's spans may go once this returns.
  void Fill(const StepBatch& batch);

  const StepView& view() const { return view_; }
  // Tokens of the step and, where shape() is there, rows of padding: StepView::row_of_token is -1 and their decode items
  // have no splits.
  int64_t tokens() const { return std::ssize(row_of_token_); }
  // A row has an adapter.
  bool adapted() const { return adapted_; }
  // Empty unless all of the step is one group of decode rows.
  std::optional<StepShape> shape() const;
  // At most two.
  std::span<const PromptGroup> prompt_groups() const { return prompt_groups_; }
  PromptSpans queries(const PromptGroup& group) const {
    return {prompt_spans_ + group.first, group.queries, group.rolls};
  }
  PromptSpans scored(const PromptGroup& group) const {
    return {prompt_spans_ + group.first + group.queries, group.scored, group.rolls};
  }
  std::span<const PinGroup> pin_groups() const { return pin_groups_; }
  // Keys of a group's rows, and their numbers.
  PromptSpans pinned(const PinGroup& group, float* scratch) const {
    return {prompt_spans_ + group.first, group.spans, false, scratch};
  }
  const int32_t* pin_rows() const { return pin_rows_on_device_; }
  const DecodeItem* decode_items() const { return decode_items_; }
  std::span<const DecodeGroup> decode_groups() const { return groups_; }

  // Floats that the largest possible row needs.
  static int64_t RowFloats(int32_t slots, int32_t query_heads, int32_t head_dim) {
    return PartialFloats(slots, query_heads, head_dim) + LogitFloats(slots, query_heads);
  }

 private:
  DeviceRow ToRow(const BatchRow& row);
  // Adds the prompts whose policies roll, or the others.
  void AddPrompts(bool rolls);
  // Adds a row's keys, the first of which are seen by the most queries; returns how many spans they are.
  int32_t AddKeys(const DeviceRow& row, int32_t number);
  void AddPins();
  void AddDecode(const DeviceRow& row, int32_t number);

  // Pads a step that is one group of decode rows.
  void Pad();

  const int32_t query_heads_, head_dim_;
  const int64_t scratch_floats_;
  const int32_t tokens_max_;
  Uploads uploads_;

  // The host's side.
  std::vector<DeviceRow> rows_;
  std::vector<int32_t> token_ids_;
  std::vector<int32_t> row_of_token_;
  std::vector<int32_t> tables_;
  std::vector<StepSnapshot> snapshots_;
  std::vector<PromptSpan> prompts_;
  std::vector<PromptGroup> prompt_groups_;
  std::vector<int32_t> pin_rows_;
  std::vector<PinGroup> pin_groups_;
  std::vector<DecodeItem> decode_;
  std::vector<DecodeGroup> groups_;
  int64_t group_floats_ = 0;
  bool adapted_ = false;

  StepView view_;
  const PromptSpan* prompt_spans_ = nullptr;
  const int32_t* pin_rows_on_device_ = nullptr;
  const DecodeItem* decode_items_ = nullptr;
};

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_STEP_TABLE_H_
