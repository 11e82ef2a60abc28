// CpuAdapterWeight is an AdapterWeight in the layouts of adapter_kernels.h.
//
// Thread: engine, and the device's threads during products; Set any, for a slot that no product reads.
#ifndef HYDRANT_KERNELS_CPU_LINEAR_CPU_ADAPTER_WEIGHT_H_
#define HYDRANT_KERNELS_CPU_LINEAR_CPU_ADAPTER_WEIGHT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/adapter_weight.h"
#include "kernels/cpu/linear/adapter_kernels.h"
#include "kernels/cpu/linear/cpu_linear.h"
#include "kernels/cpu/runtime/cpu_buffer.h"
#include "kernels/device.h"

namespace hydrant {

class CpuAdapterWeight final : public AdapterWeight {
 public:
  // No slot has an adapter. Throws std::bad_alloc.
  CpuAdapterWeight(const LinearSpec& weight, const AdapterSpec& spec);

  // bytes() of such a weight.
  static int64_t Bytes(const LinearSpec& weight, const AdapterSpec& spec);
  // The most lanes of all parts together: what a row of `inner` takes.
  static int64_t InnerFloats(int32_t rank_max);
  size_t bytes() const override { return a_.bytes() + b_.bytes(); }

  void Set(int32_t slot, std::span<const AdapterFactors> parts);

  // Parts that are computed each for itself: one, where half a panel has rows of several.
  int64_t parts() const { return parts_; }
  int64_t lanes() const { return lanes_; }
  int32_t rank(int32_t slot, int64_t part) const { return ranks_[static_cast<size_t>(slot * parts_ + part)]; }
  // Fills in what belongs to the weight: a, dtype, lanes, cols, scales. `first` is the first of 16 outputs.
  AdapterInner InnerOf(int32_t slot, int64_t part, int64_t first) const;
  // The same of a segment; slots and inner are the caller's.
  AdapterRows RowsOf(const LinearSegment& segment) const;

 private:
  struct Shape {
    Shape(const LinearSpec& weight, const AdapterSpec& spec);

    std::vector<int64_t> row_of_lane;  // [panels][32] of the weight; -1: none
    std::vector<uint8_t> part_of;      // [panels][2]
    bool merged = false;               // all parts are one, the rank of which is the sum of theirs
    int64_t parts = 0, ranks = 0, lanes = 0;
    int64_t a_part_bytes = 0, a_slot_bytes = 0, b_panel_bytes = 0, b_slot_bytes = 0;
  };

  // Rounds a number to the stored type and puts it `index` elements behind the offset.
  void Put(CpuBuffer& buffer, int64_t offset_bytes, int64_t index, float value);
  void PutB(int32_t slot, int64_t rank, int64_t first_row, int64_t rows, const AdapterFactors& part);

  const Shape shape_;
  const int64_t cols_, parts_, lanes_;
  CpuBuffer a_, b_;
  std::vector<int32_t> ranks_;  // [slots][parts]
  std::vector<float> scales_;   // [slots][parts][lanes]
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_LINEAR_CPU_ADAPTER_WEIGHT_H_
