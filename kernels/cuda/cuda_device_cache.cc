// The ops of CudaDevice over cached keys and values, and sampling.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "kernels/cuda/attention/cuda_rope_table.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/eviction/eviction.h"
#include "kernels/cuda/runtime/cuda_error.h"

namespace hydrant {
namespace {

cuda::RopeView ViewOf(const RopeTable* rope) {
  return rope != nullptr ? static_cast<const cuda::CudaRopeTable*>(rope)->view() : cuda::RopeView();
}

cuda::AttentionShape ShapeOf(const AttentionSpec& spec, int32_t layer, const Matrix& qkv, const cuda::Output& out,
                             const KvCacheLayout& layout) {
  const auto heads = static_cast<int32_t>(qkv.cols / layout.head_dim);
  return {layer,       heads - 2 * layout.kv_heads, spec.scale, static_cast<float*>(qkv.data), out,
          spec.window, spec.softcap / spec.scale,   spec.sinks};
}

// The upload of tables and what refers to them, in one packet.
template <typename Ops>
size_t TableBytes(const Ops& ops) {
  size_t bytes = 0;
  for (const auto& op : ops) {
    bytes += cuda::Uploads::PacketBytes(op.block_table) + cuda::Uploads::PacketBytes(op.score_table);
  }
  return bytes;
}

}  // namespace

void CudaDevice::RopeAndWriteKv(const RopeTable* rope, const HeadNorms& norms, int32_t layer, Matrix qkv,
                                const KvCacheView& kv) {
  assert(kv.layout.head_dim <= cuda::kHeadDimMax);
  cuda::LaunchRopeAndWriteKv(stream_, step_->view(), ViewOf(rope), norms,
                             ShapeOf(AttentionSpec(), layer, qkv, {}, kv.layout), qkv.rows, kv);
  Done();
}

void CudaDevice::Attention(const RopeTable* rope, const AttentionSpec& spec, int32_t layer, Matrix qkv,
                           const KvCacheView& kv, Matrix out) {
  cuda::AttentionShape shape = ShapeOf(spec, layer, qkv, {out.data, out.dtype}, kv.layout);
  shape.warpgroups = HasWarpgroups();
  assert(shape.query_heads <= query_heads_ && shape.query_heads / kv.layout.kv_heads <= cuda::kGroupMax);
  auto* sums = static_cast<float*>(prompt_sums_->data());
  for (const cuda::PromptGroup& group : step_->prompt_groups()) {
    cuda::LaunchPromptAttention(stream_, step_->view(), ViewOf(rope), shape, step_->queries(group), sums, kv);
    cuda::LaunchPromptScores(stream_, step_->view(), ViewOf(rope), shape, step_->scored(group), sums, kv);
  }
  auto* scratch = static_cast<float*>(shared_->data());
  for (const cuda::PinGroup& group : step_->pin_groups()) {
    const cuda::PromptSpans pinned = step_->pinned(group, scratch);
    cuda::LaunchPromptScores(stream_, step_->view(), ViewOf(rope), shape, pinned, sums, kv);
    cuda::LaunchChoosePins(stream_, step_->view(), shape, step_->pin_rows() + group.first_row, group.rows, slots_max_,
                           cut_blocks_, static_cast<std::byte*>(cuts_->data()), scratch, kv);
  }
  for (const cuda::DecodeGroup& group : step_->decode_groups()) {
    cuda::LaunchDecodeAttention(stream_, step_->view(), ViewOf(rope), shape, step_->decode_items() + group.first,
                                group.count, group.splits_max, group.rolls, scratch, kv);
  }
  Done();
}

void CudaDevice::InitScores(std::span<const ScoreInit> inits, const KvCacheView& kv) {
  uploads_->Begin(cuda::Uploads::PacketBytes(inits));
  const ScoreInit* at = uploads_->Add(inits);
  uploads_->Send();
  cuda::LaunchInitScores(stream_, inits, at, kv);
  Done();
}

void CudaDevice::CopyBlocks(std::span<const BlockCopy> copies, const KvCacheView& kv) {
  uploads_->Begin(cuda::Uploads::PacketBytes(copies));
  const BlockCopy* at = uploads_->Add(copies);
  uploads_->Send();
  constexpr size_t kMost = 65535;  // blocks in a grid's second direction
  for (size_t begin = 0; begin < copies.size(); begin += kMost) {
    cuda::LaunchCopyBlocks(stream_, at + begin, static_cast<int32_t>(std::min(kMost, copies.size() - begin)), kv);
  }
  Done();
}

cuda::PackedBlocks CudaDevice::SendTables(std::span<const int32_t> blocks, std::span<const int32_t> score_blocks) {
  uploads_->Begin(cuda::Uploads::PacketBytes(blocks) + cuda::Uploads::PacketBytes(score_blocks));
  cuda::PackedBlocks packed = {};
  packed.blocks = uploads_->Add(blocks);
  packed.score_blocks = uploads_->Add(score_blocks);
  uploads_->Send();
  return packed;
}

void CudaDevice::ExportBlocks(std::span<const int32_t> blocks, std::span<const int32_t> score_blocks,
                              const KvCacheView& kv, std::byte* out) {
  assert(blocks.size() == score_blocks.size());
  const auto bytes = static_cast<int64_t>(blocks.size() * kv.layout.block_bytes());
  staging_->Export(SendTables(blocks, score_blocks), bytes, kv, out);
}

void CudaDevice::ImportBlocks(std::span<const int32_t> blocks, float score_factor, const KvCacheView& kv,
                              const std::byte* in) {
  const auto bytes = static_cast<int64_t>(blocks.size() * kv.layout.block_bytes());
  staging_->Import(SendTables(blocks, blocks), bytes, score_factor, kv, in);
  Done();
}

void CudaDevice::ExportState(int32_t state_row, const KvCacheView& kv, std::byte* out) {
  assert(state_row >= 0 && state_row < kv.layout.state_rows);
  const size_t victims = kv.layout.state_bytes() - sizeof(int32_t);
  CopyToHost(out, kv.victim + kv.layout.victim_offset(0, state_row, 0), victims);
  CopyToHost(out + victims, samples_->sampled_id(state_row), sizeof(int32_t));
}

// Behind what is queued, without waiting for it: both parts go in one packet.
void CudaDevice::ImportState(int32_t state_row, const KvCacheView& kv, const std::byte* in) {
  assert(state_row >= 0 && state_row < kv.layout.state_rows);
  const std::span<const std::byte> state(in, kv.layout.state_bytes());
  const size_t victims = state.size() - sizeof(int32_t);
  uploads_->Begin(cuda::Uploads::PacketBytes(state));
  const std::byte* at = uploads_->Add(state);
  uploads_->Send();
  const auto copy = [this](int32_t* to, const std::byte* from, size_t bytes) {
    CheckCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
  };
  copy(kv.victim + kv.layout.victim_offset(0, state_row, 0), at, victims);
  copy(samples_->sampled_id(state_row), at + victims, sizeof(int32_t));
  Done();
}

void CudaDevice::Shrink(std::span<const ShrinkOp> ops, const KvCacheView& kv) {
  std::vector<cuda::Cut> cuts(ops.size());
  uploads_->Begin(TableBytes(ops) + cuda::Uploads::PacketBytes(std::span(cuts)));
  for (size_t i = 0; i < ops.size(); ++i) {
    const ShrinkOp& op = ops[i];
    assert(op.live_from <= slots_max_);
    assert(op.live_from <= op.live_to || (op.policy.evicts && op.live_to == op.policy.keep()));
    const bool pools = op.prompt_cut && op.policy.pool_width > 1;
    const int32_t* blocks = uploads_->Add(op.block_table);
    cuts[i] = {op.live_from,
               op.live_to,
               op.position_end(),
               pools ? op.policy.pool_width / 2 : 0,
               op.policy,
               blocks,
               op.score_table.empty() ? blocks : uploads_->Add(op.score_table)};
  }
  const cuda::Cut* at = uploads_->Add<cuda::Cut>(cuts);
  uploads_->Send();
  cuda::LaunchCuts(stream_, at, static_cast<int32_t>(cuts.size()), slots_max_, cut_blocks_,
                   static_cast<std::byte*>(cuts_->data()), kv);
  Done();
}

void CudaDevice::MeasurePairs(const LossOp& op, const KvCacheView& kv, std::span<double> of_pairs) {
  assert(op.policy.evicts);
  std::vector<cuda::Weighing> cuts(op.losses.size());
  for (size_t i = 0; i < cuts.size(); ++i) {
    const int32_t keep = op.keep_max - static_cast<int32_t>(i) * kBlockSlots;
    assert(keep >= 1 && keep <= op.policy.keep());
    cuts[i] = {keep, op.policy.Lowered(keep).recent};
  }
  const size_t bytes = of_pairs.size_bytes();
  // It stays: to free memory waits for the device.
  if (losses_ == nullptr || losses_->bytes() < bytes) losses_ = std::make_unique<cuda::CudaBuffer>(bytes + bytes / 2);
  uploads_->Begin(cuda::Uploads::PacketBytes(std::span(cuts)) + cuda::Uploads::PacketBytes(op.score_blocks()));
  cuda::LossCase loss = {op.live,
                         op.position_end(),
                         op.policy.scores(),
                         uploads_->Add<cuda::Weighing>(cuts),
                         static_cast<int32_t>(cuts.size()),
                         uploads_->Add(op.score_blocks()),
                         static_cast<double*>(losses_->data())};
  uploads_->Send();
  cuda::LaunchLosses(stream_, loss, kv);
  CopyToHost(of_pairs.data(), losses_->data(), bytes);
}

void CudaDevice::AwaitSample(uint64_t number) { samples_->Await(number); }

uint64_t CudaDevice::Sample(Matrix logits, std::span<const SampleRequest> requests, std::span<SampleResult> results) {
  const uint64_t number = samples_->Sample(logits, requests, results);
  Done();
  return number;
}

void CudaDevice::ReadTile(const KvCacheView& kv, bool value, int32_t layer, int32_t block, int32_t kv_head,
                          float* out) {
  const KvCacheLayout& layout = kv.layout;
  const size_t elements = static_cast<size_t>(kBlockSlots) * static_cast<size_t>(layout.head_dim);
  std::vector<std::byte> tile(layout.tile_bytes());
  const int64_t at = layout.tile_offset(layer, block, kv_head);
  CopyToHost(tile.data(), static_cast<const std::byte*>(value ? kv.v : kv.k) + at, tile.size());
  const auto* scales = reinterpret_cast<const float*>(tile.data());  // of kInt8
  for (size_t i = 0; i < elements; ++i) {
    switch (layout.type) {
      case KvType::kF32:
        out[i] = reinterpret_cast<const float*>(tile.data())[i];
        break;
      case KvType::kF16:
        out[i] = __half2float(reinterpret_cast<const __half*>(tile.data())[i]);
        break;
      case KvType::kBF16:
        out[i] = __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(tile.data())[i]);
        break;
      case KvType::kInt8: {
        const auto* codes = reinterpret_cast<const int8_t*>(tile.data() + KvScaleBytes(KvType::kInt8));
        out[i] = scales[i / static_cast<size_t>(layout.head_dim)] * static_cast<float>(codes[i]);
        break;
      }
    }
  }
}

}  // namespace hydrant
