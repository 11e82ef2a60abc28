// ModelExecutor runs steps of a real model on a Device: it flattens the rows, calls the Transformer, cuts what has to
// be cut and samples.
//
// Thread: engine. Launch and Sample return when the device has their part of the step, in its queue or behind it; Await waits for
// what it sampled.
#ifndef HYDRANT_MODEL_RUN_MODEL_EXECUTOR_H_
#define HYDRANT_MODEL_RUN_MODEL_EXECUTOR_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "model/checkpoint/checkpoint.h"
#include "model/run/executor.h"
#include "model/run/kv_cache.h"
#include "model/run/parked_kv.h"
#include "model/run/swapped_kv.h"
#include "model/run/transformer.h"

namespace hydrant {

// Receives the evictions, for --debug-kv-dump: what a comparison with an independent H2O under forced tokens needs.
// Thread: engine.
class KvDumpSink {
 public:
  virtual ~KvDumpSink() = default;
  // [layer][kv_head][positions, ascending]: what the cache holds once the prompt is computed and cut.
  using Positions = std::vector<std::vector<std::vector<int32_t>>>;
  virtual void OnPromptDone(int32_t state_row, Positions kept) = 0;
  // After each decode step: the chosen victims' positions [layer][kv_head], or nothing when the step chose none.
  virtual void OnDecode(int32_t state_row, std::optional<std::vector<std::vector<int32_t>>> victims) = 0;
};

struct ModelExecutorOptions {
  WeightChoice weights;
  StreamOptions stream;  // of the weights; memory_bytes 0: all of them lie in memory
  KvType kv_type = KvType::kF32;
  int32_t blocks = 0;              // of the KV pool
  int32_t spare_score_blocks = 0;  // score blocks beyond the blocks' own
  int32_t sequences_max = 0;       // state rows, and rows in one step
  int32_t batch_tokens_max = 0;    // tokens in one step, drafts aside
  int32_t drafts_max = 0;          // drafts in one step; > 0 only if the device takes them
  // Logits are taken in tiles of equally many rows, at most these: the head is read once per tile, which on a processor costs nothing next to the
  // arithmetic of 64 rows, and a prompt's log-probabilities never need a [prompt, vocab] matrix.
  int32_t logits_rows_max = 64;
  int32_t context_max = 0;      // rows of the position table: bounds a rolling sequence's slots, another one's length
  int64_t swap_blocks = 0;      // of host memory for sequences that are swapped out; 0: none can be
  AdapterLimits adapters = {};  // `dtype` is set from `weights`
  LoadProgress on_load = nullptr;  // on Create's thread; null: nobody asks
  KvDumpSink* dump = nullptr;      // outlives the executor; null: off, at no cost
};

class ModelExecutor : public Executor {
 public:
  // `logits_rows_max` for a device with so much memory of its own, which multiplies more rows in the time that reading the head
  // takes: one row for each sequence, as long as logits take no more than a hundredth of that memory. `copies`: Device::copies.
  static int32_t LogitsRows(const ModelConfig& config, int64_t device_memory_bytes, int32_t sequences_max,
                            int64_t copies);

  // What logits of a row take in all copies, with the states that they are made of.
  static int64_t LogitsRowBytes(const ModelConfig& config, int64_t copies);

  // The limits of a step that follow from the options.
  static Transformer::Limits LimitsOf(const ModelExecutorOptions& options);

  // Packs the weights and takes all device memory. RESOURCE_EXHAUSTED when there is not enough. `device` outlives the
  // executor; the checkpoint may be closed afterwards.
  static absl::StatusOr<std::unique_ptr<ModelExecutor>> Create(const Checkpoint& checkpoint, Device& device,
                                                               const ModelExecutorOptions& options);

  Ticket Launch(const StepInput& input) override;
  void Sample(Ticket ticket, std::span<const LogitAdjustments* const> adjustments) override;
  StepOutput Await(Ticket ticket) override;
  void KeepDrafts(std::span<const int32_t> kept) override;
  KvBytes Parked(const TurnId& turn) const override { return parked_.Share(turn); }
  bool Adopt(const TurnId& turn, const KvBytes& parked) override;
  void PutAdapter(int32_t slot, const Adapter& adapter) override { transformer_.adapters()->Put(slot, adapter); }

  WeightStream::Counters WeightReads() const override {
    return weights().stream != nullptr ? weights().stream->counters() : WeightStream::Counters();
  }

  const KvCacheView& kv() const { return kv_cache_.view(); }
  const Weights& weights() const { return transformer_.weights(); }
  const SwappedKv& swapped() const { return swapped_; }

 private:
  // A logits row wanted by the step: what to do with it and where the result goes.
  struct LogitsRequest {
    int32_t token_index;  // in the flattened batch
    SampleRequest request;
    SampleResult* result;
  };

  ModelExecutor(const ModelConfig& config, Weights weights, Device& device, const ModelExecutorOptions& options);

  // A step on its way: what it samples, and where the results go.
  struct InFlightStep {
    const StepInput* input = nullptr;
    StepOutput output;
    std::vector<LogitsRequest> logits_requests;
    std::vector<SampleResult> results;  // [logits_requests.size()]
    uint64_t sample = 0;                // the last call of Device::Sample; 0: nothing to wait for
  };

  void QueueLayers(const StepInput& input, InFlightStep* flight);
  void QueueSample(std::span<const LogitAdjustments* const> adjustments, InFlightStep* flight);
  void MoveOut(const StepInput& input, StepOutput* output);
  void MoveIn(const StepInput& input, StepOutput* output);
  void BeginPark(const ParkOp& park);
  void CopySlice(const ParkOp& park);
  void Park(std::span<const ParkOp> parks, std::vector<TurnId>* failures);
  void SwapOut(std::span<const SwapOutOp> swaps, std::vector<uint64_t>* failures);
  void Restore(std::span<const RestoreOp> restores);
  void SwapIn(std::span<const SwapInOp> swaps);
  void FlattenRows(const StepInput& input);
  void MeasureLosses(const StepInput& input, StepOutput* output);
  void CopyAfterForward(const StepInput& input);
  void CutAfterForward(const StepInput& input);
  void CollectLogitsRequests(std::span<const LogitAdjustments* const> adjustments, InFlightStep* flight);
  static void CollectDrafts(const StepRow& row, const BatchRow& batch_row, RowOutput* out, InFlightStep* flight);
  void SampleTiles(InFlightStep* flight);
  void PoolStates(const StepInput& input);
  void DumpRow(const StepRow& row);
  void Read(const ReadOp& read);
  std::vector<int32_t> LivePositions(const StepRow& row, int32_t live, int32_t layer, int32_t kv_head);

  const ModelConfig config_;
  const ModelExecutorOptions options_;
  Device& device_;
  KvCache kv_cache_;
  Transformer transformer_;

  // Reused from step to step.
  std::vector<int32_t> token_ids_;
  std::vector<BatchRow> rows_;
  std::vector<BlockCopy> copies_;
  std::vector<int32_t> cut_tables_;  // tables of the step's cuts with the copies in place: [blocks][score blocks] each
  std::vector<ShrinkOp> shrinks_;
  std::vector<LossOp> losses_;
  std::vector<int32_t> logits_indices_;
  std::vector<PooledStates*> pools_;  // [logits_indices_.size()], where states are taken
  std::vector<float> states_;         // a tile of them, [logits_rows_max, state_cols]
  std::vector<SampleRequest> requests_;

  ParkedKv parked_;
  SwappedKv swapped_;

  std::array<InFlightStep, kStepsInFlight> flights_;  // in turn
  uint64_t launched_ = 0;
  uint64_t awaited_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_RUN_MODEL_EXECUTOR_H_
