// CpuDevice runs every op on a fixed thread pool with kernels chosen for the processor at construction.
//
// Thread: engine. The calling thread works too; between steps all threads are idle.
//
// Invariants
//  1. The invariants of Device. Results differ between instruction sets (products of bf16 are rounded differently),
//     never between runs, batches, chunkings or thread counts on one.
//  2. Matrices are dense rows of fp32: stride == cols.
#ifndef HYDRANT_KERNELS_CPU_CPU_DEVICE_H_
#define HYDRANT_KERNELS_CPU_CPU_DEVICE_H_

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/runtime/cpu_buffer.h"
#include "kernels/cpu/runtime/cpu_features.h"
#include "kernels/cpu/runtime/thread_pool.h"
#include "kernels/device.h"

namespace hydrant {

class CpuAdapterWeight;   // kernels/cpu/linear/cpu_adapter_weight.h
struct AttentionScratch;  // kernels/cpu/attention/attention_scratch.h
struct ExpertScratch;     // kernels/cpu/linear/expert_scratch.h
struct LinearRun;         // kernels/cpu/linear/cpu_linear.h
class SamplingScratches;  // kernels/cpu/sampling/sampling_scratch.h
class ShrinkScratches;    // kernels/cpu/eviction/shrink_scratch.h

struct CpuDeviceOptions {
  int threads = 1;                 // >= 1, the calling thread included
  std::optional<CpuIsa> isa = {};  // empty: ChooseIsa()
};

class CpuDevice final : public Device {
 public:
  // Errors: no usable instruction set (see ChooseIsa), or options.isa is not supported here.
  static absl::StatusOr<std::unique_ptr<CpuDevice>> Create(const CpuDeviceOptions& options);
  ~CpuDevice() override;

  // True if products of this dtype run on native instructions, with the input rounded to it.
  bool MultipliesNatively(DType dtype) const;

  bool ChoosesPins() const override { return true; }
  bool TakesDrafts() const override { return true; }
  bool ComputesAtOnce() const override { return true; }
  void KeepDrafts(std::span<const BatchRow> rows, std::span<const int32_t> kept, const KvCacheView& kv) override;
  std::string kv_format() const override { return "cpu 1"; }  // cpu/attention/kv_layout.h, of every instruction set
  std::string name() const override;
  bool Supports(WeightFormat format) const override;
  double AttentionCost(WeightFormat format) const override;
  DType PreferredInputType(const LinearSpec&) const override { return DType::kF32; }

  std::unique_ptr<DeviceBuffer> Allocate(size_t bytes) override;
  void CopyToDevice(void* dst, const void* src, size_t bytes) override;
  void CopyToHost(void* dst, const void* src, size_t bytes) override;
  std::unique_ptr<LinearWeight> MakeLinear(const LinearSpec& spec, const WeightRows& rows,
                                           std::span<const float> bias) override;
  int64_t LinearBytes(const LinearSpec& spec, bool biased) const override;
  std::string weight_layout() const override;
  std::vector<int64_t> PieceBytes(const LinearSpec& spec, int64_t piece_bytes_max) const override;
  int64_t RowPartBytes(const LinearSpec& spec) const override;
  std::unique_ptr<LinearWeight> MakeLinearInPieces(const LinearSpec& spec, std::span<const float> bias,
                                                   WeightPieces& pieces, int32_t first,
                                                   int64_t piece_bytes_max) override;
  void PackPiece(LinearWeight& weight, int32_t piece, const WeightRows& rows) override;
  std::unique_ptr<RopeTable> MakeRope(const RopeSpec& spec) override;
  std::unique_ptr<AdapterWeight> MakeAdapterWeight(const LinearSpec& weight, const AdapterSpec& spec) override;
  int64_t AdapterBytes(const LinearSpec& weight, const AdapterSpec& spec) const override;
  void SetAdapter(AdapterWeight& weight, int32_t slot, std::span<const AdapterFactors> parts) override;
  void ReserveScratch(const StepBounds& bounds) override;
  int64_t ScratchBytes(const StepBounds& bounds) const override;

#define HYDRANT_OP(result, name, parameters) result name parameters override;
#include "kernels/step_ops.inc"
#undef HYDRANT_OP
  void ReadTile(const KvCacheView& kv, bool value, int32_t layer, int32_t block, int32_t kv_head, float* out) override;

 private:
  CpuDevice(int threads, const KernelTable& kernels);

  // `adapters`: what the rows get besides; null: nothing.
  void MultiplyRun(const LinearRun& run, const CpuAdapterWeight* adapters, Epilogue epilogue, Activation activation,
                   Matrix x, Matrix y);
  // A x of all rows with an adapter, into adapters_.inner.
  void ComputeInner(const CpuAdapterWeight& weight, Matrix x);

  struct WeightPlace;
  // Records a product of this step and guesses the one after it.
  WeightPlace NoteProduct(const char* data, int64_t panels, int64_t panel_bytes);

  size_t PreparedBytes(const StepBounds& bounds) const;    // of prepared_x_
  size_t EmbeddingFloats(const StepBounds& bounds) const;  // of embedding_rows_
  size_t PreparedExpertRowBytes(int64_t cols) const;       // the most of all formats

  const KernelTable& kernels_;
  ThreadPool pool_;
  StepBatch batch_;                   // of the step in progress; the rows are the caller's
  std::vector<int32_t> token_ids_;    // of batch_, with the sampled ones in their places
  std::vector<BatchRow> left_in_;     // batch_'s rows but for those behind an end
  std::vector<int32_t> sampled_ids_;  // [rows_max], by state row; kNoNextId
  uint64_t samples_ = 0;              // calls of Sample

  // The step's rows by their adapters.
  struct AdapterScratch {
    // Some rows with the adapter of one slot.
    struct Tile {
      int32_t slot = 0;
      size_t first = 0, count = 0;  // of `rows`
    };

    // `pairs`: the processor multiplies pairs of bf16, for which x is rounded.
    void Reserve(const StepBounds& bounds, bool pairs);
    static size_t Bytes(const StepBounds& bounds, bool pairs);
    void Begin(std::span<const BatchRow> batch);

    std::vector<int32_t> slots;  // [tokens]; empty: no row has an adapter
    std::vector<int32_t> rows;   // those with one, by slots
    std::vector<Tile> tiles;
    std::vector<int32_t> before, after;  // [tokens]: AdapterRows
    // x of the product in progress [tokens][cols], where it is rounded, and A x [tokens][parts][lanes].
    std::vector<uint16_t> x;
    std::vector<float> inner;
  };
  AdapterScratch adapters_;

  std::unique_ptr<CpuBuffer> prepared_x_;  // x of the product in progress, as the linear kernels want it
  std::vector<float> embedding_rows_;      // [threads, cols_max]: the row of a position, to be added to that of a token

  // Where the products of the last step found their weights, in order: while one is computed, the start of the next one's
  // weights is pulled into the caches. Steps repeat each other, so the guess is right from the second step on; the addresses
  // are only ever prefetched and may be stale. Products beyond the last entry go without.
  struct WeightPlace {
    const char* data = nullptr;
    int64_t panels = 0;
    int64_t panel_bytes = 0;
  };
  std::array<WeightPlace, 1024> products_;
  size_t product_ = 0;  // number of the next product in this step

  std::unique_ptr<AttentionScratch> attention_;
  std::unique_ptr<ExpertScratch> experts_;
  std::unique_ptr<ShrinkScratches> shrink_;
  std::unique_ptr<SamplingScratches> sampling_;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_CPU_DEVICE_H_
