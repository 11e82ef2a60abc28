// AdapterWeight is what adapters (LoRA) add to one weight: for a row with the adapter in slot s, y += B_s (scale_s * (A_s x)) before
// anything else becomes of the sums. Its memory is taken once, for all slots; an adapter goes into a slot, and out of it, while no
// step has a row with that slot.
//
// Thread: engine; Device::SetAdapter any.
//
// Invariants
//  1. What a row gets depends on its x and on its own adapter alone: not on other rows, their adapters, or what else a slot had.
//  2. A row without an adapter, and one whose adapter leaves the weight as it is, has the bits of a product without adapters.
//  3. A x and B h are sums in fp32 in an order that is fixed for a device. Rounded is what is stored of A and B; x where the product
//     itself takes it rounded; and, where these are bf16, x and h on a device that multiplies bf16.
#ifndef HYDRANT_KERNELS_ADAPTER_WEIGHT_H_
#define HYDRANT_KERNELS_ADAPTER_WEIGHT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/types.h"

namespace hydrant {

// The parts of a weight that adapters change each for itself: adjacent rows, all of the weight's. Of fused ones q, k and v, or the
// gate and the up projection.
inline constexpr int32_t kAdapterPartsMax = 3;

struct AdapterSpec {
  std::vector<int64_t> part_rows;  // 1 to kAdapterPartsMax
  int32_t slots = 0;
  int32_t rank_max = 0;       // of a part
  DType dtype = DType::kF32;  // what A and B are stored as: fp32 or bf16

  int32_t parts() const { return static_cast<int32_t>(part_rows.size()); }
};

// What an adapter does to one part. Rank 0: nothing.
struct AdapterFactors {
  int32_t rank = 0;
  float scale = 0;
  std::span<const float> a = {};  // [rank, cols]
  std::span<const float> b = {};  // [rows of the part, rank]
};

class AdapterWeight {
 public:
  virtual ~AdapterWeight() = default;
  const AdapterSpec& spec() const { return spec_; }
  virtual size_t bytes() const = 0;

 protected:
  explicit AdapterWeight(AdapterSpec spec) : spec_(std::move(spec)) {}
  AdapterSpec spec_;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_ADAPTER_WEIGHT_H_
