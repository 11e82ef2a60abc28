// CpuLinear is a LinearWeight in the packed layouts of kernels/cpu/linear: that of linear_kernels.h, and for rows of a
// quantised format that of quantised_layout.h.
//
// Thread: built by one thread (which uses the pool), then immutable.
//
// Invariants
//  1. Segments follow each other in the order of the outputs; each begins a panel of its own, and a panel has one format.
//  2. The segments of a run need x in one form: all of them are quantised, or none is. There are at most two runs.
//  3. A gate and its up projection in one format lie side by side in panels. In two formats each is a run of one segment, the
//     gate first: it is stored, and the other one multiplies what is there.
#ifndef HYDRANT_KERNELS_CPU_LINEAR_CPU_LINEAR_H_
#define HYDRANT_KERNELS_CPU_LINEAR_CPU_LINEAR_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/linear/linear_kernels.h"
#include "kernels/cpu/runtime/cpu_buffer.h"
#include "kernels/cpu/runtime/thread_pool.h"
#include "kernels/device.h"

namespace hydrant {

// Adjacent outputs of a weight in one format.
struct LinearSegment {
  PackedWeight packed;
  int64_t first_row = 0;     // of the weight; side by side, of the gate
  int64_t first_output = 0;  // column of y that panel 0 begins with
  int64_t first_panel = 0;   // number of panel 0 in its run
  int64_t panels = 0;
  int64_t weight_panel = 0;  // number of panel 0 among those of the whole weight

  const char* panel(int64_t index) const { return static_cast<const char*>(packed.data) + index * packed.panel_bytes; }
};

// What a run computes of its weight's outputs.
enum class RunPart : uint8_t { kWhole, kGate, kUp };

// A run's own epilogue, where the product has `epilogue`.
Epilogue EpilogueOf(RunPart part, Epilogue epilogue);

// Segments that are multiplied with the same prepared x.
struct LinearRun {
  bool quantised = false;
  RunPart part = RunPart::kWhole;
  int64_t panels = 0;  // of all segments
  std::vector<LinearSegment> segments;

  // Where panel `index` of the run lies; the end of the last one if index == panels.
  const char* panel(int64_t index) const;
};

class CpuLinear final : public LinearWeight {
 public:
  // Reads and packs every row. Throws std::bad_alloc.
  CpuLinear(const LinearSpec& spec, const WeightRows& rows, std::span<const float> bias, const LinearKernels& kernels,
            ThreadPool& pool);

  // bytes() of such a weight.
  static int64_t Bytes(const LinearSpec& spec, bool biased);
  size_t bytes() const override { return data_.bytes() + bias_.bytes(); }
  // Which row of the weight each lane of its panels is: [panels of all segments][kPanelRows], -1: none.
  static std::vector<int64_t> RowsOfPanels(const LinearSpec& spec);

  const std::vector<LinearRun>& runs() const { return runs_; }

  // Row `row` of the weight as fp32 -> out [cols]. REQUIRES !spec().gated.
  void ReadRow(int64_t row, const LinearKernels& kernels, float* out) const;

 private:
  void PackBias(std::span<const float> bias);
  void PackPanels(const LinearSegment& segment, const WeightRows& rows, const LinearKernels& kernels, int64_t begin,
                  int64_t end);

  CpuBuffer data_;  // the panels of all segments
  CpuBuffer bias_;  // [panels of all segments][kPanelRows] fp32, or empty
  std::vector<LinearRun> runs_;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_LINEAR_CPU_LINEAR_H_
