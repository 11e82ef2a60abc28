// Device is the op interface under the one Transformer: everything that touches weights, activations or cached keys and
// values. The ops of a step are in kernels/step_ops.inc. CpuDevice and CudaDevice implement it; kernels/reference/reference.h is the slow oracle of every op.
//
// Thread: engine. One step at a time: BeginStep, ops in any order, Sample. Ops may return when they are queued, and then
// run in the order of the calls: the next step may begin before AwaitSample has returned for the last one.
//
// Invariants
//  1. All memory is taken in constructors and Make*/Allocate calls before the first step; a step allocates nothing but what an op
//     says. Where there is none, the op throws std::bad_alloc: its output means nothing then, and the next step may begin.
//  2. A row's arithmetic never depends on which other rows are in the batch, on the number of threads, or on how a
//     prompt was cut into chunks (chunks end on multiples of kBlockSlots, the last one aside): equal bits in, equal
//     bits out.
//  3. Softmax, scores, norms, the residual stream and logits are fp32; only inputs of a low-precision matrix product
//     are rounded.
#ifndef HYDRANT_KERNELS_DEVICE_H_
#define HYDRANT_KERNELS_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kv_cache_view.h"
#include "kernels/sampling.h"
#include "kernels/step_batch.h"
#include "kernels/types.h"

namespace hydrant {

// A piece of device memory; freed with the object. Zeroed when handed out.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 protected:
  DeviceBuffer(void* data, size_t bytes) : data_(data), bytes_(bytes) {}
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void* data_;
  size_t bytes_;
};

// View of a dense row-major matrix in device memory.
struct Matrix {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
};

// Reads rows [begin, end) of a host tensor as fp32 into out [end - begin, cols]. Called from several threads at once.
using RowReader = std::function<void(int64_t begin, int64_t end, float* out)>;
// Reads them as they are stored, in one format: out [end - begin, RowBytes(format, cols)]. Called likewise.
using StoredRowReader = std::function<void(int64_t begin, int64_t end, std::byte* out)>;

// Where a weight's rows come from. A RowReader is one, too: of a weight without quantised rows.
struct WeightRows {
  RowReader fp32;
  // Reads the rows that LinearSpec gives a quantised format, part by part; null where there are none.
  StoredRowReader stored = {};

  WeightRows(RowReader reader) : fp32(std::move(reader)) {}  // NOLINT(google-explicit-constructor)
  WeightRows(RowReader reader, StoredRowReader stored_reader)
      : fp32(std::move(reader)), stored(std::move(stored_reader)) {}
};

// Rows that lie together in a weight and have one format.
struct LinearPart {
  int64_t rows = 0;
  WeightFormat format = WeightFormat::kF32;
};

struct LinearSpec {
  int64_t rows = 0;                          // outputs
  int64_t cols = 0;                          // inputs
  WeightFormat format = WeightFormat::kF32;  // of every row; means nothing where there are `parts`
  bool gated = false;  // rows [0, rows/2) are the gate, the rest the up projection; used with Device::LinearGated only
  // Where formats are mixed: all rows, part by part. Those that are not quantised have one format. A gate and its up projection
  // have one, too: every device multiplies them side by side.
  std::vector<LinearPart> parts = {};
};

// Weights of y = x W^T (+ bias), packed once into the layout the device multiplies fastest. Also the embedding table.
class LinearWeight {
 public:
  virtual ~LinearWeight() = default;
  const LinearSpec& spec() const { return spec_; }
  virtual size_t bytes() const = 0;

 protected:
  explicit LinearWeight(const LinearSpec& spec) : spec_(spec) {}
  LinearSpec spec_;
};

// Rotary embedding in the NeoX convention (element i pairs with i + dims/2).
struct RopeSpec {
  int32_t dims = 0;                  // rotated leading elements of a head, even
  std::span<const double> inv_freq;  // [dims / 2], scaling already applied
  double attention_factor = 1.0;     // multiplies cos and sin (yarn); else 1
  int32_t positions_max = 0;         // positions are in [0, positions_max)
};

// cos/sin for every position, formed in fp64 and stored as fp32.
class RopeTable {
 public:
  virtual ~RopeTable() = default;
};

struct NormWeight {
  NormKind kind = NormKind::kRms;
  const float* weight = nullptr;  // [cols]
  const float* bias = nullptr;    // [cols] or null
  float eps = 1e-5f;
};

// Norms of every single head of the queries and of the keys, [head_dim] each, before they are rotated; a null weight: none.
struct HeadNorms {
  NormWeight q;
  NormWeight k;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string name() const = 0;  // for example "cpu avx512_bf16, 2 threads"

  // True when products of this dtype run on native instructions; `--dtype auto` keeps a checkpoint's dtype only then.
  virtual bool MultipliesNatively(DType dtype) const = 0;
  // True when MakeLinear takes rows of this format and keeps them so. Of every other one it takes what they are expanded to.
  virtual bool Supports(WeightFormat format) const = 0;

  // The type in which rows are best put that a product with such a weight takes next: fp32 or, where the product rounds its input
  // anyway, the weight's own. y of Norm, LinearActivated and LinearGated, Attention's out and x of all products may
  // have either; every other matrix is of fp32. A product's bits do not depend on which it is.
  virtual DType PreferredInputType(const LinearSpec& spec) const = 0;

  // --- set-up -------------------------------------------------------------------------------------------------------
  // Throws std::bad_alloc when the memory is not to be had.
  virtual std::unique_ptr<DeviceBuffer> Allocate(size_t bytes) = 0;
  virtual void CopyToDevice(void* dst, const void* src, size_t bytes) = 0;
  virtual void CopyToHost(void* dst, const void* src, size_t bytes) = 0;
  // `bias` [rows] may be empty. REQUIRES: Supports every format of `spec`.
  virtual std::unique_ptr<LinearWeight> MakeLinear(const LinearSpec& spec, const WeightRows& rows,
                                                   std::span<const float> bias) = 0;
  // LinearWeight::bytes() of what MakeLinear would make, with or without a bias.
  virtual int64_t LinearBytes(const LinearSpec& spec, bool biased) const = 0;
  virtual std::unique_ptr<RopeTable> MakeRope(const RopeSpec& spec) = 0;
  // Reserves the scratch memory of steps within `bounds`. Throws as Allocate does.
  virtual void ReserveScratch(const StepBounds& bounds) = 0;
  // What that takes of the memory that Allocate takes its from.
  virtual int64_t ScratchBytes(const StepBounds& bounds) const = 0;

  // --- a step -------------------------------------------------------------------------------------------------------
#define HYDRANT_OP(result, name, parameters) virtual result name parameters = 0;
#include "kernels/step_ops.inc"
#undef HYDRANT_OP

  // --- inspection (tests, --debug-kv-dump) ---------------------------------------------------------------------------
  // One head's tile of `k` or `v` as fp32 [16][head_dim], whatever the device's own order.
  virtual void ReadTile(const KvCacheView& kv, bool value, int32_t layer, int32_t block, int32_t kv_head,
                        float* out) = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_DEVICE_H_
