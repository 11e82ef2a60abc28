// The ops of CpuDevice over cached keys and values.
#include <cassert>

#include "kernels/cpu/attention_scratch.h"
#include "kernels/cpu/cpu_device.h"

namespace hydrant {

void CpuDevice::AttentionScratchDeleter::operator()(AttentionScratch* scratch) const { delete scratch; }
void CpuDevice::ReserveAttentionScratch(int32_t, int32_t, int32_t, int32_t, int32_t, int64_t) {}
std::unique_ptr<RopeTable> CpuDevice::MakeRope(const RopeSpec&) {
  assert(false);
  return nullptr;
}
void CpuDevice::RopeAndWriteKv(const RopeTable*, int32_t, Matrix, const KvCacheView&) { assert(false); }
void CpuDevice::Attention(int32_t, float, Matrix, const KvCacheView&, Matrix) { assert(false); }
void CpuDevice::Shrink(std::span<const ShrinkOp>, const KvCacheView&) { assert(false); }
void CpuDevice::Sample(Matrix, std::span<const SampleRequest>, std::span<SampleResult>) { assert(false); }
void CpuDevice::ReadTile(const KvCacheView&, bool, int32_t, int32_t, int32_t, float*) { assert(false); }

}  // namespace hydrant
