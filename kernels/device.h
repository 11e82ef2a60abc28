// Device is the op interface under the one Transformer: it does everything that touches weights, activations or the KV
// cache. kernels/step_ops.inc declares the ops of a step. CpuDevice and CudaDevice implement it;
// kernels/reference/reference.h is the slow oracle of every op.
//
// Thread: engine. One step at a time: BeginStep, ops in any order, Sample. An op may return when it is queued; queued
// ops run in the order of the calls. The next step may begin before AwaitSample has returned for the last one.
//
// Invariants
//  1. Constructors and Make*/Allocate calls allocate all memory before the first step. During a step only an op whose
//     comment says so allocates. An op that cannot allocate throws std::bad_alloc: its output is undefined, and the
//     next step may begin.
//  2. A row's arithmetic never depends on which other rows are in the batch, on the number of threads, or on how a
//     prompt was cut into chunks (chunks end on multiples of kBlockSlots, the last one aside): equal bits in, equal
//     bits out.
//  3. Softmax, scores, norms, the residual stream and logits are fp32; only the inputs of a low-precision product are
//     rounded.
#ifndef HYDRANT_KERNELS_DEVICE_H_
#define HYDRANT_KERNELS_DEVICE_H_

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/adapter_weight.h"
#include "kernels/epilogue.h"
#include "kernels/kv_cache_view.h"
#include "kernels/sampling.h"
#include "kernels/step_batch.h"
#include "kernels/types.h"
#include "kernels/weight_pieces.h"

namespace hydrant {

// A piece of device memory. Allocate zeroes it; the destructor frees it.
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

// A view of a dense row-major matrix in device memory.
struct Matrix {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
};

// Reads rows [begin, end) of a host tensor as fp32 into out [end - begin, cols]. Several threads call it at once.
using RowReader = std::function<void(int64_t begin, int64_t end, float* out)>;
// Reads them as they are stored, in one format, into out [end - begin, RowBytes(format, cols)]. Several threads call it
// at once.
using StoredRowReader = std::function<void(int64_t begin, int64_t end, std::byte* out)>;

// The source of a weight's rows. A RowReader alone is one for a weight without quantised rows.
struct WeightRows {
  RowReader fp32;
  // Reads the rows for which LinearSpec gives a quantised format, part by part; null if there are none.
  StoredRowReader stored = {};

  WeightRows(RowReader reader) : fp32(std::move(reader)) {}  // NOLINT(google-explicit-constructor)
  WeightRows(RowReader reader, StoredRowReader stored_reader)
      : fp32(std::move(reader)), stored(std::move(stored_reader)) {}
};

// Adjacent rows of a weight in one format.
struct LinearPart {
  int64_t rows = 0;
  WeightFormat format = WeightFormat::kF32;
};

// Which ops use a weight: products, Embed, which reads its rows, or both.
enum class LinearUse : uint8_t { kProduct, kTable, kTableAndProduct };

struct LinearSpec {
  int64_t rows = 0;                          // outputs
  int64_t cols = 0;                          // inputs
  WeightFormat format = WeightFormat::kF32;  // of every row; ignored if there are `parts`
  bool gated = false;  // rows [0, rows/2) are the gate, the rest the up projection; used with Device::LinearGated only
  // For mixed formats: all rows, part by part; of a gated weight, the gate and the up projection. The parts that are not quantised
  // share one format.
  std::vector<LinearPart> parts = {};
  // By these two a device of several ranks divides the rows; others need not look at them.
  LinearUse use = LinearUse::kProduct;
  // Above 0: outputs are queries, then so many rows of keys and as many of values, which RopeAndWriteKv and Attention take.
  int64_t key_rows = 0;

  // Whether it has rows in a quantised format.
  bool quantised() const {
    return std::any_of(parts.begin(), parts.end(), [](const LinearPart& part) { return IsQuantised(part.format); }) ||
           (parts.empty() && IsQuantised(format));
  }
};

// A weight W (and a bias) of y = x W^T + bias, packed once into the layout that the device multiplies fastest. An
// embedding table is one, too.
class LinearWeight {
 public:
  virtual ~LinearWeight() = default;
  const LinearSpec& spec() const { return spec_; }
  virtual size_t bytes() const = 0;

 protected:
  explicit LinearWeight(const LinearSpec& spec) : spec_(spec) {}
  LinearSpec spec_;
};

// Rotary embedding (RoPE) in the NeoX convention: element i pairs with i + dims/2.
struct RopeSpec {
  int32_t dims = 0;                  // leading elements of a head that are rotated; even
  std::span<const double> inv_freq;  // [dims / 2], scaling already applied
  double attention_factor = 1.0;     // multiplies cos and sin (yarn); else 1
  int32_t positions_max = 0;         // positions are in [0, positions_max)
};

// cos and sin for every position, computed in fp64 and stored as fp32.
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

// The experts of a layer by their numbers: gated MLPs of one shape, each matrix in a format of its own.
class Experts {
 public:
  using Matrices = std::vector<std::unique_ptr<LinearWeight>>;  // [experts]

  Experts(Matrices up, Matrices down) : up_(std::move(up)), down_(std::move(down)) {
    assert(up_.size() == down_.size());
  }
  virtual ~Experts() = default;
  const Matrices& up() const { return up_; }      // [2 ffn, hidden] each, gate rows first
  const Matrices& down() const { return down_; }  // [hidden, ffn] each

 private:
  Matrices up_, down_;
};

// How a row chooses experts by its logits: the `per_row` largest, of equal ones those with lower numbers. An expert's weight is
// its probability in the softmax over all logits.
struct ExpertRouting {
  int32_t per_row = 0;
  bool normalised = false;  // weights are divided by the sum of those of the chosen experts
};

// Norms of each query head and each key head, [head_dim] each, applied before rotation. A null weight: no norm.
struct HeadNorms {
  NormWeight q;
  NormWeight k;
  // All query heads of a token are normalised as one row, and so are its key heads: weights are [heads * head_dim].
  bool over_heads = false;
  // [kv_heads * head_dim] factors in device memory, the same for two elements that rotate together. After the norms keys are divided
  // by them and queries multiplied: products stay what they are. Null: ones.
  const float* balance = nullptr;
};

// How a layer attends to the slots that its tokens see.
struct AttentionSpec {
  float scale = 1.0f;          // of q K^T; above 0
  float softcap = 0.0f;        // above 0: a scaled product s counts as softcap * tanh(s / softcap); 0: as it is
  int32_t window = kNoWindow;  // at least 1: a token sees no slot whose position is so many or more below its own
  // [query_heads] fp32 in device memory: one more logit in every softmax of the head, after `scale` and `softcap`. It takes its
  // share of the sum and adds no value. Null: none.
  const float* sinks = nullptr;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string name() const = 0;  // for example "cpu avx512_bf16, 2 threads"
  // Names the order of elements in what ExportBlocks writes: of two devices with one name the one can import the other's blocks. At
  // most 31 characters; it changes with the order.
  virtual std::string kv_format() const = 0;

  // True if MakeLinear takes rows of this format and keeps them in it. Rows of another format must be expanded to a
  // DType first.
  virtual bool Supports(WeightFormat format) const = 0;
  // False if MakeLinear wants all rows of a weight quantised, in any formats, or none; and MakeExperts matrices of one format each.
  virtual bool MixesQuantised() const { return true; }

  // True if attention chooses pins and holds them (EvictionPolicy::pin_rows). False: no row has such a policy.
  virtual bool ChoosesPins() const { return false; }

  // True if decode rows may have drafts behind their token. False: none has.
  virtual bool TakesDrafts() const { return false; }

  // True if an op's work is done when it returns, so that a step may be given up between two ops. False: it is recorded or queued.
  virtual bool ComputesAtOnce() const { return false; }

  // How long an operation of attention takes, in operations of products with weights of this format: a prompt's later
  // tokens cost as much more than their operations. 1 where nobody has measured it.
  virtual double AttentionCost(WeightFormat) const { return 1; }

  // The element type that a matrix should have if the next op multiplies it with such a weight: fp32, or the weight's
  // own dtype if the product rounds its input to it anyway. y of Norm, LinearActivated and LinearGated, Attention's out
  // and x of all products may have either; every other matrix is fp32. A product's bits do not depend on the choice.
  virtual DType PreferredInputType(const LinearSpec& spec) const = 0;

  // --- set-up -------------------------------------------------------------------------------------------------------
  // Throws std::bad_alloc if there is not enough memory.
  virtual std::unique_ptr<DeviceBuffer> Allocate(size_t bytes) = 0;
  // Memory for an array of a KvCacheView: `count` pieces of `unit_bytes`, one of each KV head after the other. A device of several
  // ranks gives each rank its heads'.
  virtual std::unique_ptr<DeviceBuffer> AllocateByHead(const KvCacheLayout& /*layout*/, size_t count,
                                                       size_t unit_bytes) {
    return Allocate(count * unit_bytes);
  }
  // Bytes that a byte of Allocate takes: ranks that share a memory have a copy each.
  virtual int64_t copies() const { return 1; }
  virtual void CopyToDevice(void* dst, const void* src, size_t bytes) = 0;
  virtual void CopyToHost(void* dst, const void* src, size_t bytes) = 0;
  // `bias` [rows] may be empty. REQUIRES: Supports every format of `spec`, and MixesQuantised if not all or no rows are.
  virtual std::unique_ptr<LinearWeight> MakeLinear(const LinearSpec& spec, const WeightRows& rows,
                                                   std::span<const float> bias) = 0;
  // LinearWeight::bytes() of the weight that MakeLinear would return, with or without a bias.
  virtual int64_t LinearBytes(const LinearSpec& spec, bool biased) const = 0;
  // --- weights in pieces (a device that has none of these keeps all weights in memory) --------------------------------
  // Names the order of the bytes in a piece: of two devices with one name the one can multiply what the other has packed. It changes with
  // the order. Empty: the device cannot multiply weights in pieces.
  virtual std::string weight_layout() const { return {}; }
  // The bytes of the pieces that a weight is cut into, none above `piece_bytes_max` unless it cannot be cut further.
  virtual std::vector<int64_t> PieceBytes(const LinearSpec&, int64_t /*piece_bytes_max*/) const { return {}; }
  // The most bytes of WeightPieces::Part that a row of such an embedding table takes.
  virtual int64_t RowPartBytes(const LinearSpec&) const { return 0; }
  // A weight of PieceBytes(spec, piece_bytes_max), of which the first one is number `first` of `pieces`; these outlive it. Whatever
  // multiplies it, or reads rows of it, may throw WeightsLost. No experts. Throws as Allocate does.
  virtual std::unique_ptr<LinearWeight> MakeLinearInPieces(const LinearSpec&, std::span<const float> /*bias*/,
                                                           WeightPieces& /*pieces*/, int32_t /*first*/,
                                                           int64_t /*piece_bytes_max*/) {
    return nullptr;
  }
  // Packs piece `piece`, counted from the weight's first one, at its address. REQUIRES: a weight of MakeLinearInPieces.
  virtual void PackPiece(LinearWeight&, int32_t /*piece*/, const WeightRows&) {}

  // REQUIRES: weights of this device, all `up` of one shape, and all `down`.
  virtual std::unique_ptr<Experts> MakeExperts(Experts::Matrices up, Experts::Matrices down) {
    return std::make_unique<Experts>(std::move(up), std::move(down));
  }
  virtual std::unique_ptr<RopeTable> MakeRope(const RopeSpec& spec) = 0;
  // What adapters add to a weight of MakeLinear(`weight`); no slot has one. REQUIRES: parts of `spec` make up all rows. Throws as
  // Allocate does.
  virtual std::unique_ptr<AdapterWeight> MakeAdapterWeight(const LinearSpec& weight, const AdapterSpec& spec) = 0;
  // AdapterWeight::bytes() of it.
  virtual int64_t AdapterBytes(const LinearSpec& weight, const AdapterSpec& spec) const = 0;
  // Puts an adapter into a slot, in the place of what it had; `parts` [spec().parts()], empty: the weight stays as it is. Any
  // thread, one call at a time, beside whatever steps run: those that are launched once it has returned have it. REQUIRES: no step
  // that is queued or runs has a row with the slot. Throws as Allocate does, and never with empty `parts` on a sound device; the
  // slot's part of this weight is empty then, or still what it was.
  virtual void SetAdapter(AdapterWeight& weight, int32_t slot, std::span<const AdapterFactors> parts) = 0;
  // Allocates the scratch memory for steps within `bounds`. Throws as Allocate does.
  virtual void ReserveScratch(const StepBounds& bounds) = 0;
  // Bytes that ReserveScratch takes from the memory that Allocate uses.
  virtual int64_t ScratchBytes(const StepBounds& bounds) const = 0;

  // --- a step -------------------------------------------------------------------------------------------------------
#define HYDRANT_OP(result, name, parameters) virtual result name parameters = 0;
#include "kernels/step_ops.inc"
#undef HYDRANT_OP

  // The products of a step, with checked shapes. x [n, cols], y [n, rows]; n = x.rows may be less than the batch's, but with
  // `adapters` (null: none) x has the rows of BeginStep, and each gets what its adapter adds, in front of the activation.
  // y = x W^T + bias, or y += x W^T + bias if `accumulate`.
  void Linear(const LinearWeight& weight, Matrix x, Matrix y, bool accumulate,
              const AdapterWeight* adapters = nullptr) {
    CheckedMultiply(weight, adapters, accumulate ? Epilogue::kAccumulate : Epilogue::kStore, Activation::kSilu, x, y);
  }
  // y = activation(x W^T + bias).
  void LinearActivated(const LinearWeight& weight, Activation activation, Matrix x, Matrix y,
                       const AdapterWeight* adapters = nullptr) {
    CheckedMultiply(weight, adapters, Epilogue::kActivate, activation, x, y);
  }
  // y = activation(x Wgate^T + bias) * factor(x Wup^T + bias), as kernels/epilogue.h says. y [n, rows / 2];
  // weight.spec().gated.
  void LinearGated(const LinearWeight& weight, Activation activation, Matrix x, Matrix y,
                   const AdapterWeight* adapters = nullptr) {
    CheckedMultiply(weight, adapters, Epilogue::kGate, activation, x, y);
  }

  // The rows of the step before, in its order, keep so many of their tokens; what the drafts behind them have written and scored is
  // undone. Before anything else changes the sequence's slots. REQUIRES: TakesDrafts, and at least one token of each stays.
  virtual void KeepDrafts(std::span<const BatchRow> /*rows*/, std::span<const int32_t> /*kept*/,
                          const KvCacheView& /*kv*/) {
    assert(false);
  }

  // Measures losses over all layers and KV heads: the means of MeasurePairs, which are formed in one order on every device.
  void MeasureLosses(std::span<const LossOp> ops, const KvCacheView& kv) {
    const size_t pairs = static_cast<size_t>(kv.layout.layers) * static_cast<size_t>(kv.layout.kv_heads);
    std::vector<double> of_pairs;  // [pair][cut]
    for (const LossOp& op : ops) {
      const size_t cuts = op.losses.size();
      if (cuts == 0) continue;
      of_pairs.assign(pairs * cuts, 0.0);
      MeasurePairs(op, kv, of_pairs);
      for (size_t cut = 0; cut < cuts; ++cut) {
        double sum = 0.0;
        for (size_t pair = 0; pair < pairs; ++pair) sum += of_pairs[pair * cuts + cut];
        op.losses[cut] = static_cast<float>(sum / static_cast<double>(pairs));
      }
    }
  }

  // --- inspection (tests, --debug-kv-dump) ---------------------------------------------------------------------------
  // Copies one head's tile of `k` or `v` to out [16][head_dim] as fp32, independent of the device's own element order.
  virtual void ReadTile(const KvCacheView& kv, bool value, int32_t layer, int32_t block, int32_t kv_head,
                        float* out) = 0;

 private:
  void CheckedMultiply(const LinearWeight& weight, const AdapterWeight* adapters, Epilogue epilogue,
                       Activation activation, Matrix x, Matrix y) {
    [[maybe_unused]] const LinearSpec& spec = weight.spec();
    assert(spec.gated == (epilogue == Epilogue::kGate));
    assert(x.cols == spec.cols && x.rows == y.rows && y.cols == (spec.gated ? spec.rows / 2 : spec.rows));
    Multiply(weight, adapters, epilogue, activation, x, y);
  }
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_DEVICE_H_
