// CudaDevice runs every op on one NVIDIA GPU of compute capability 8.0 or later, in one stream.
//
// Thread: engine. Ops return when they are queued; AwaitSample, the copies to the host and MeasurePairs wait.
//
// Invariants
//  1. Those of Device but for one: products with weights of a DType are formed by different kernels for different numbers of
//     rows, so that a row's bits depend on how many rows are in the step. For equal steps they are equal. Products with weights
//     kept as they are stored have the same bits in all products of fewer than kUnpackRows (linear/unpack.h); larger ones are
//     products with the weight rounded to bf16.
//  2. Errors of CUDA are CudaError, thrown by the op that learns of them; the device is not used after one.
#ifndef HYDRANT_KERNELS_CUDA_CUDA_DEVICE_H_
#define HYDRANT_KERNELS_CUDA_CUDA_DEVICE_H_

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/eviction/kv_staging.h"
#include "kernels/cuda/graph.h"
#include "kernels/cuda/linear/adapters.h"
#include "kernels/cuda/linear/cuda_linear.h"
#include "kernels/cuda/linear/matvec.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/sampling/sample_queue.h"
#include "kernels/cuda/step_table.h"
#include "kernels/device.h"

namespace hydrant {

struct CudaDeviceOptions {
  // For tests: device memory is the host's and may be looked at after every op, which waits.
  bool host_visible = false;
  // Steps that only generate are recorded as graphs. Off: every kernel is launched by itself.
  bool graphs = true;
};

class CudaDevice final : public Device {
 public:
  // The first GPU that the process sees; CUDA_VISIBLE_DEVICES chooses. Errors: there is none, or it is too old.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(const CudaDeviceOptions& options);
  ~CudaDevice() override;

  std::string kv_format() const override { return "cuda 1"; }  // cuda/attention/cache.cuh
  std::string name() const override;
  bool ChoosesPins() const override { return true; }
  bool Supports(WeightFormat format) const override;
  bool MixesQuantised() const override { return false; }
  DType PreferredInputType(const LinearSpec& spec) const override;
  // Device memory that is not taken.
  size_t free_bytes() const;
  size_t graphs() const { return graphs_.size(); }  // recorded

  std::unique_ptr<DeviceBuffer> Allocate(size_t bytes) override;
  void CopyToDevice(void* dst, const void* src, size_t bytes) override;
  void CopyToHost(void* dst, const void* src, size_t bytes) override;
  std::unique_ptr<LinearWeight> MakeLinear(const LinearSpec& spec, const WeightRows& rows,
                                           std::span<const float> bias) override;
  int64_t LinearBytes(const LinearSpec& spec, bool biased) const override;
  std::unique_ptr<Experts> MakeExperts(Experts::Matrices up, Experts::Matrices down) override;
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
  CudaDevice(const CudaDeviceOptions& options, const cudaDeviceProp& properties);

  // Bytes of the buffers below.
  struct Scratch {
    int64_t rounded_x = 0, gate = 0, adapters = 0, chosen_experts = 0, shared = 0, prompt_sums = 0, cuts = 0,
            samples = 0, table = 0;
    int64_t decode_floats = 0;
    int32_t cut_blocks = 0;
  };
  Scratch ScratchOf(const StepBounds& bounds) const;

  void Synchronize();
  // The end of every op: tests wait for it.
  void Done();
  // Rows of a product that are formed together: `n` of `of`, from `begin` on.
  struct Chunk {
    int64_t begin = 0, n = 0, of = 0;
  };
  // The product of a chunk by the kernel for so many rows; of a weight that is kept as it is stored, by that for all of the product's.
  void MultiplyRows(const cuda::CudaLinear& weight, Epilogue epilogue, Activation activation, const cuda::Input& x,
                    const Chunk& chunk, const cuda::Output& y);
  // The same with what the adapters of these rows add; they are those of the step from `chunk.begin` on.
  void MultiplyAdapted(const cuda::CudaLinear& weight, const cuda::AdapterView& adapters, Epilogue epilogue,
                       Activation activation, const cuda::Input& x, const Chunk& chunk, const cuda::Output& y);
  void MultiplyMany(const cuda::WeightView& weight, Epilogue epilogue, Activation activation, const cuda::Input& x,
                    int64_t n, const cuda::Output& y);
  void MultiplyPacked(const cuda::CudaLinear& weight, Epilogue epilogue, Activation activation, const cuda::Input& x,
                      const Chunk& chunk, const cuda::Output& y);
  // The same for many rows: slices of the weight become bf16 in `shared_`, and the library multiplies them. x [n, cols] of bf16. A
  // weight that is one slice is unpacked for the first chunk, and lies there for the others.
  void MultiplyUnpacked(const cuda::CudaLinear& weight, Epilogue epilogue, Activation activation, const void* x,
                        const Chunk& chunk, const cuda::Output& y);
  // What a product by the library consists of. x [n, cols] as a `dtype`, rows *stride apart, which becomes cols where nothing is
  // to be rounded.
  const void* Rounded(const cuda::Input& x, DType dtype, int64_t n, int64_t cols, int64_t* stride);
  // Where its sums [n, rows] go: the library writes fp32, so what becomes another type, or half as wide, goes through `gate_`.
  float* SumsFor(Epilogue epilogue, int64_t n, int64_t rows, const cuda::Output& y);
  // sums [n, weight.rows], rows `sums_stride` apart, = x W^T, on top of what they are where `epilogue` accumulates.
  void AddUp(const cuda::WeightView& weight, const void* x, int64_t x_stride, int64_t n, Epilogue epilogue, float* sums,
             int64_t sums_stride);
  void Finish(const float* bias, Epilogue epilogue, Activation activation, const float* sums, int64_t n, int64_t rows,
              const cuda::Output& y);
  cuda::PackedBlocks SendTables(std::span<const int32_t> blocks, std::span<const int32_t> score_blocks);

  bool HasWarpgroups() const { return properties_.major == 9 && properties_.minor == 0; }

  const bool host_visible_;
  const bool graphs_wanted_;
  const cudaDeviceProp properties_;
  cuda::Stream stream_;
  cuda::Stream adapter_uploads_;  // of SetAdapter's thread
  cuda::BlasHandle blas_;
  std::unique_ptr<cuda::CudaBuffer> blas_workspace_;
  std::unique_ptr<cuda::Uploads> uploads_;  // of ops that are not part of the step's table
  std::unique_ptr<cuda::KvStaging> staging_;

  bool in_layers_ = false;  // ops are being recorded, and wait for nothing
  cuda::GraphCache graphs_;

  // Scratch memory, made by ReserveScratch.
  std::unique_ptr<cuda::SampleQueue> samples_;
  std::unique_ptr<cuda::StepTable> step_;
  int32_t slots_max_ = 0;
  int32_t query_heads_ = 0;
  int32_t cut_blocks_ = 0;
  std::unique_ptr<cuda::CudaBuffer> rounded_x_;       // [kProductRows, cols_max] of 16 bits
  std::unique_ptr<cuda::CudaBuffer> gate_;            // [kProductRows, 2 * cols_max]
  std::unique_ptr<cuda::CudaBuffer> adapter_inner_;   // [kProductRows, kAdapterPartsMax * adapter_rank_max], or none
  std::unique_ptr<cuda::CudaBuffer> chosen_experts_;  // [tokens_max, experts_per_row] of ExpertShare, or none
  // Decode attention's partial outputs and logits, or the slice of a weight that is being multiplied.
  std::unique_ptr<cuda::CudaBuffer> shared_;
  std::unique_ptr<cuda::CudaBuffer> prompt_sums_;  // [tokens_max, query_heads]
  std::unique_ptr<cuda::CudaBuffer> cuts_;         // [cut_blocks_] of CutScratchBytes
  std::unique_ptr<cuda::CudaBuffer> losses_;       // of the largest question so far
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CUDA_CUDA_DEVICE_H_
