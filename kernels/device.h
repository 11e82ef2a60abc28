// Device is the op interface under the one Transformer: everything that touches weights, activations or cached keys and
// values. CpuDevice and CudaDevice implement it; kernels/reference/reference.h is the slow oracle of every op.
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

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "kernels/eviction_policy.h"
#include "kernels/sampling.h"

namespace hydrant {

enum class DType : uint8_t { kF32, kF16, kBF16 };

constexpr size_t DTypeBytes(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

// Token slots in a block: one head's tile of 16 x head_dim elements is the unit of every KV kernel.
inline constexpr int32_t kBlockSlots = 16;

// The slots of the blocks that `slots` slots lie in.
constexpr int32_t WholeBlocks(int32_t slots) { return (slots + kBlockSlots - 1) / kBlockSlots * kBlockSlots; }

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

enum class Activation : uint8_t { kSilu, kGelu, kGeluTanh, kRelu };

struct LinearSpec {
  int64_t rows = 0;  // outputs
  int64_t cols = 0;  // inputs
  DType dtype = DType::kF32;
  bool gated = false;  // rows [0, rows/2) are the gate, the rest the up projection; used with Device::LinearGated only
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

struct KvCacheLayout {
  int32_t layers = 0;
  int32_t blocks = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  DType dtype = DType::kF32;
  int32_t state_rows = 0;   // sequences that can be in progress at once
  int32_t spare_sides = 0;  // side blocks [blocks, blocks + spare_sides) belong to no block
  bool inspected = false;   // KvCacheView::logical_position is there

  // Bytes of K, or of V.
  size_t kv_bytes() const { return slots(blocks) * static_cast<size_t>(head_dim) * DTypeBytes(dtype); }
  // Elements of `score`, or of `position`.
  size_t side_count() const { return slots(sides()); }
  int32_t sides() const { return blocks + spare_sides; }
  // Bytes of one block's K, V, scores and positions over all layers and KV heads; of the last two alone.
  size_t block_bytes() const {
    return 2 * slots(1) * static_cast<size_t>(head_dim) * DTypeBytes(dtype) + side_block_bytes();
  }
  size_t side_block_bytes() const { return slots(1) * (sizeof(float) + (inspected ? 2 : 1) * sizeof(int32_t)); }
  // Elements from the start of `score` or `position` to [side][layer][kv_head].
  constexpr int64_t side_offset(int32_t layer, int64_t side, int32_t kv_head) const {
    return ((side * layers + layer) * kv_heads + kv_head) * kBlockSlots;
  }
  // Elements from the start of `k` or `v` to the tile [block][layer][kv_head].
  constexpr int64_t tile_offset(int32_t layer, int64_t block, int32_t kv_head) const {
    return side_offset(layer, block, kv_head) * head_dim;
  }
  // Elements from the start of `victim` to [state_row][layer][kv_head].
  constexpr int64_t victim_offset(int32_t layer, int64_t state_row, int32_t kv_head) const {
    return (state_row * layers + layer) * kv_heads + kv_head;
  }
  size_t victim_count() const {
    return static_cast<size_t>(state_rows) * static_cast<size_t>(layers) * static_cast<size_t>(kv_heads);
  }

 private:
  size_t slots(int32_t blocks_of_16) const {
    return static_cast<size_t>(layers) * static_cast<size_t>(blocks_of_16) * static_cast<size_t>(kv_heads) *
           kBlockSlots;
  }
};

// Device memory addressed by block id: slot s of a sequence lives in block table[s / 16] at offset s % 16. All (layer,
// KV head) pairs share the table; which token a slot holds differs per pair. The order of elements inside one [16,
// head_dim] tile of `k` and `v` is the device's own. A block is one piece of memory over all layers: a pool is touched for
// the first time piece by piece, as blocks are given out (with the layers outside, the first blocks of a stretch of every
// layer came at once, and the system's clearing of that much memory stopped a step for 0.3 s), and whole blocks move in
// one copy.
//
// Scores and positions are addressed by *side block* in the same way. A block's own side block has its number; a sequence
// that shares a block with others has a spare one beside it.
//
// The position of a slot is where its key stands: the token's logical position or, under a rolling policy, its rank, so that
// evicting one token lowers the positions above it by one. Under a rolling policy `k` holds keys before rotation.
struct KvCacheView {
  KvCacheLayout layout;
  void* k = nullptr;            // [block][layer][kv_head][16][head_dim]
  void* v = nullptr;            // [block][layer][kv_head][16][head_dim]
  float* score = nullptr;       // [side block][layer][kv_head][16]
  int32_t* position = nullptr;  // [side block][layer][kv_head][16]
  int32_t* victim = nullptr;    // [state_row][layer][kv_head], the slot the next token overwrites
  // [side block][layer][kv_head][16], for inspection only, else null: the token's logical position whatever the policy.
  int32_t* logical_position = nullptr;
};

// Where the scores of a prefill row's first `slots` slots go as they are when the tile of 16 rows that ends there has been
// added and nothing after it.
struct ScoreSnapshot {
  int32_t slots = 0;                    // multiple of kBlockSlots, within the row's tokens
  std::span<const int32_t> sides = {};  // [slots / kBlockSlots]
};

// One sequence's share of a step. A prefill row has 1 or more prompt tokens, which occupy slots [live, live +
// token_count) and attend to every slot below `live` and causally to each other; a decode row has exactly one token.
struct BatchRow {
  int32_t state_row = 0;    // [0, state_rows): keeps its meaning from step to step
  int32_t token_begin = 0;  // first of its tokens in the flattened batch
  int32_t token_count = 0;
  int32_t position = 0;       // logical position of the first token
  int32_t live = 0;           // slots occupied before this step
  int32_t prompt_length = 0;  // tokens of the whole prompt
  bool prefill = false;
  bool reuse_victim = false;   // decode: the token goes into the chosen victim's slot instead of slot `live`
  bool choose_victim = false;  // decode: after scoring, choose the slot the next token overwrites
  EvictionPolicy policy;
  std::span<const int32_t> block_table;           // covers every slot the step touches
  std::span<const int32_t> side_table = {};       // beside it; empty: each block's own
  std::span<const ScoreSnapshot> snapshots = {};  // prefill, by ascending slots

  std::span<const int32_t> sides() const { return side_table.empty() ? block_table : side_table; }
  int32_t live_after() const { return reuse_victim ? live : live + token_count; }
  // Where its first token stands, and its query with it: KvCacheView's position.
  int32_t first_position() const { return policy.rolling ? live_after() - token_count : position; }
  // Prefill under a policy that scores: the logical position of its first token that does; none of them where that is not
  // below position + token_count.
  int32_t first_scored() const {
    const int32_t window = policy.score_rows == 0 ? prompt_length : policy.score_rows;
    return std::max(prompt_length - window, position);
  }
  // Decode: slots whose KvCacheView::position is below it may be the victim.
  int32_t candidates_end() const { return first_position() + 1 - policy.recent; }
};

// Steps that a device has room for on their way to it: the next one may be queued while it computes the last.
inline constexpr int32_t kStepsInFlight = 2;

// In the place of a decode row's token: the id last sampled for its state row (SampleRequest::state_row), which the device has.
// A row behind an end (SampleRequest::ends) is left out: it changes nothing in the cache, and its outputs mean nothing.
inline constexpr int32_t kSampledId = -1;

// What a device remembers in the place of an id that was an end.
inline constexpr int32_t kNoNextId = -2;

// The flattened batch of a step. Spans must stay valid until the step's last op, Sample, was called.
struct StepBatch {
  std::span<const int32_t> token_ids;  // [tokens], each in the vocabulary or kSampledId
  std::span<const BatchRow> rows;      // tokens of row r: [token_begin, token_begin + token_count), in order, no gaps
};

// Lowers one sequence to `live_to` slots: per (layer, KV head) the policy's cut chooses the survivors, those in slots
// >= live_to move into the holes below, with score and position.
struct ShrinkOp {
  int32_t live_from = 0;
  int32_t live_to = 0;         // == policy.keep(); of fewer than `recent` recent tokens the heavy part takes the rest
  int32_t logical_length = 0;  // tokens seen
  bool prompt_cut = false;     // the cut that ends the prompt: policy.pool_width and policy.store_pooled apply
  EvictionPolicy policy;
  std::span<const int32_t> block_table;
  std::span<const int32_t> side_table = {};  // beside it; empty: each block's own

  std::span<const int32_t> sides() const { return side_table.empty() ? block_table : side_table; }
  // KvCacheView's positions are below it; the newest token's is the one before.
  int32_t position_end() const { return policy.rolling ? live_from : logical_length; }
};

// Asks what cuts would cost: to each of `keep_max`, `keep_max` - kBlockSlots, … slots, losses.size() of them. The loss of a
// cut is the share of the score mass that the dropped slots hold, the mean over layers and KV heads; where nothing is
// scored, or all scores are 0, every slot counts the same. 0 where the cut drops nothing.
struct LossOp {
  int32_t live = 0;
  int32_t logical_length = 0;  // tokens seen
  int32_t keep_max = 0;
  EvictionPolicy policy;  // the one the request began with: Lowered gives each cut's
  std::span<const int32_t> block_table;
  std::span<const int32_t> side_table = {};  // beside it; empty: each block's own
  std::span<float> losses;

  std::span<const int32_t> sides() const { return side_table.empty() ? block_table : side_table; }
  int32_t position_end() const { return policy.rolling ? live : logical_length; }  // as ShrinkOp's
};

// A side block gets scores, of another one or 0 (`from` -1), and the positions `position`, `position` + 1, …
struct SideInit {
  int32_t from = -1;
  int32_t to = 0;
  int32_t position = 0;
};

// K and V of a block, with the scores and positions beside it, become those of another one and of its own side block.
struct BlockCopy {
  int32_t from = 0;
  int32_t from_side = 0;
  int32_t to = 0;
};

enum class NormKind : uint8_t { kRms, kLayer };

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

// The largest step that scratch memory is there for.
struct StepBounds {
  int32_t tokens_max = 0;
  int32_t rows_max = 0;     // and state rows that ids are sampled for
  int32_t slots_max = 0;    // of one row
  int64_t cols_max = 0;     // of a matrix that is multiplied
  int32_t query_heads = 0;  // of attention
  int32_t head_dim = 0;
  int64_t vocab = 0;  // columns of the logits
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string name() const = 0;  // for example "cpu avx512_bf16, 2 threads"

  // True when products of this dtype run on native instructions; `--dtype auto` keeps a checkpoint's dtype only then.
  virtual bool MultipliesNatively(DType dtype) const = 0;

  // The type in which rows of `cols` elements are best put that products with weights of `dtype` take next: fp32 or, where a product
  // rounds its input anyway, the weights' own. y of Norm, LinearActivated and LinearGated, Attention's out and x of all products may
  // have either; every other matrix is of fp32. A product's bits do not depend on which it is.
  virtual DType ProductInput(DType dtype, int64_t cols) const = 0;

  // --- set-up -------------------------------------------------------------------------------------------------------
  // Throws std::bad_alloc when the memory is not to be had.
  virtual std::unique_ptr<DeviceBuffer> Allocate(size_t bytes) = 0;
  virtual void CopyToDevice(void* dst, const void* src, size_t bytes) = 0;
  virtual void CopyToHost(void* dst, const void* src, size_t bytes) = 0;
  // `bias` [rows] may be empty.
  virtual std::unique_ptr<LinearWeight> MakeLinear(const LinearSpec& spec, const RowReader& reader,
                                                   std::span<const float> bias) = 0;
  virtual std::unique_ptr<RopeTable> MakeRope(const RopeSpec& spec) = 0;
  // Reserves the scratch memory of steps within `bounds`. Throws as Allocate does.
  virtual void ReserveScratch(const StepBounds& bounds) = 0;
  // What that takes of the memory that Allocate takes its from.
  virtual int64_t ScratchBytes(const StepBounds& bounds) const = 0;

  // --- a step -------------------------------------------------------------------------------------------------------
  // Returns the rows that the batch's matrices have: its tokens and, on a device that computes in sizes of its own, rows
  // behind them, never more than tokens_max in all. What these hold means nothing; the ops below may read and write it.
  virtual int64_t BeginStep(const StepBatch& batch) = 0;

  // Calls `ops`, which queues the step's layers: Embed to Attention, no other. Where `program` is the same and BeginStep
  // returned the same, it queues the same ops on the same memory, so that a device may record them and not call it again.
  virtual void RunLayers(const void* program, const std::function<void()>& ops) = 0;

  // x[i] = row token_ids[i] of `tokens` + the row of its logical position of `positions`; a null table adds nothing, and one
  // of them is there. x [tokens, cols] fp32.
  virtual void Embed(const LinearWeight* tokens, const LinearWeight* positions, Matrix x) = 0;
  // y = norm(x) per row; x, y [n, cols] fp32; y may be x.
  virtual void Norm(const NormWeight& norm, Matrix x, Matrix y) = 0;
  // y = x W^T + bias, or y += x W^T + bias. x [n, cols], y [n, rows]; n = x.rows may be any part of the batch.
  virtual void Linear(const LinearWeight& weight, Matrix x, Matrix y, bool accumulate) = 0;
  // y = activation(x W^T + bias).
  virtual void LinearActivated(const LinearWeight& weight, Activation activation, Matrix x, Matrix y) = 0;
  // y = activation(x Wgate^T) * (x Wup^T). y [n, rows / 2]; weight.spec().gated.
  virtual void LinearGated(const LinearWeight& weight, Activation activation, Matrix x, Matrix y) = 0;
  // qkv [tokens, (query_heads + 2 kv_heads) * head_dim], heads in the order q, k, v. Normalises the heads of q and k as
  // `norms` says, then rotates q in place and, unless the policy is rolling, k on its way (rope null: neither), writes k
  // and v into each token's slot, sets its position and zeroes its score. A rolling policy's victim leaves: positions above
  // it are lowered.
  virtual void RopeAndWriteKv(const RopeTable* rope, const HeadNorms& norms, int32_t layer, Matrix qkv,
                              const KvCacheView& kv) = 0;
  // out [tokens, query_heads * head_dim] = softmax(q K^T * scale) V per token over its sequence's slots: prefill rows
  // causally in slot order, decode rows over live_after() slots. Accumulates scores and chooses victims as each row's
  // policy says. `rope` as in RopeAndWriteKv: rolling policies' keys are rotated with it.
  virtual void Attention(const RopeTable* rope, int32_t layer, float scale, Matrix qkv, const KvCacheView& kv,
                         Matrix out) = 0;
  // y[i] = x[indices[i]].
  virtual void GatherRows(Matrix x, std::span<const int32_t> indices, Matrix y) = 0;
  // Over all layers and KV heads, before the step's layers, one after the other.
  virtual void InitSides(std::span<const SideInit> inits, const KvCacheView& kv) = 0;
  // Over all layers and KV heads, in any order: no target is another one's source. Runs after the step's layers.
  virtual void CopyBlocks(std::span<const BlockCopy> copies, const KvCacheView& kv) = 0;
  // Copies blocks and the side blocks beside them to host memory: layout.block_bytes() each, in the device's own order.
  virtual void ExportBlocks(std::span<const int32_t> blocks, std::span<const int32_t> sides, const KvCacheView& kv,
                            std::byte* out) = 0;
  // Fills blocks and their own side blocks from what ExportBlocks wrote. Scores are multiplied by `score_factor`.
  virtual void ImportBlocks(std::span<const int32_t> blocks, float score_factor, const KvCacheView& kv,
                            const std::byte* in) = 0;

  // Over all layers and KV heads. Runs after the step's layers. A rolling policy's survivors get new ranks.
  virtual void Shrink(std::span<const ShrinkOp> ops, const KvCacheView& kv) = 0;
  // Over all layers and KV heads; runs after the step's layers and before its cuts, and changes nothing. The one op that may
  // take host memory of its own: it is asked when somebody waits for blocks, not in every step.
  virtual void MeasureLosses(std::span<const LossOp> ops, const KvCacheView& kv) = 0;
  // Chooses, and returns the number of the call: 1, 2, 3, … Each of `results`, as many as `requests`, is there once
  // AwaitSample has returned for that number or a later one, and until then stays where it is. `requests` may be empty. Of a call
  // that throws nothing is written later.
  virtual uint64_t Sample(Matrix logits, std::span<const SampleRequest> requests, std::span<SampleResult> results) = 0;
  // Waits for that call, and for what was queued before it. Takes no memory.
  virtual void AwaitSample(uint64_t number) = 0;

  // --- inspection (tests, --debug-kv-dump) ---------------------------------------------------------------------------
  // One head's tile of `k` or `v` as fp32 [16][head_dim], whatever the device's own order.
  virtual void ReadTile(const KvCacheView& kv, bool value, int32_t layer, int32_t block, int32_t kv_head,
                        float* out) = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_DEVICE_H_
