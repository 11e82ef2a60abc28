// CpuLinear is a LinearWeight in the packed layouts of kernels/cpu/linear: that of linear_kernels.h, and for rows of a
// quantised format that of quantised_layout.h.
//
// Thread: built by one thread (which uses the pool), then immutable.
//
// Invariants
//  1. Segments follow each other in the order of the outputs; each begins a panel of its own, and a panel has one format.
//  2. The segments of a run need x in one form: all of them are quantised, or none is. There are at most two runs.
//  4. Of a weight in pieces a run is one piece, or a part of the weight that becomes one.
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
  int64_t up_rows = 0;       // side by side: so many rows behind a gate's is the up projection's

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
  int32_t piece = -1;  // of CpuLinear::pieces(); -1: the weight lies in memory
  std::vector<LinearSegment> segments;

  // Where panel `index` of the run lies; the end of the last one if index == panels.
  const char* panel(int64_t index) const;
};

class CpuLinear final : public LinearWeight {
 public:
  // Reads and packs every row. Throws std::bad_alloc.
  CpuLinear(const LinearSpec& spec, const WeightRows& rows, std::span<const float> bias, const LinearKernels& kernels,
            ThreadPool& pool);

  // A weight in pieces: nothing is read or packed. Throws std::bad_alloc.
  CpuLinear(const LinearSpec& spec, std::span<const float> bias, WeightPieces& pieces, int32_t first,
            int64_t piece_bytes_max);
  // Device::PieceBytes.
  static std::vector<int64_t> PieceBytes(const LinearSpec& spec, int64_t piece_bytes_max);
  // Device::RowPartBytes: a panel.
  static int64_t PanelBytesMax(const LinearSpec& spec);
  // Device::PackPiece.
  void PackPiece(int32_t piece, const WeightRows& rows, const LinearKernels& kernels, ThreadPool& pool);

  // bytes() of such a weight.
  static int64_t Bytes(const LinearSpec& spec, bool biased);
  // In pieces: as if all of it lay in memory.
  size_t bytes() const override { return static_cast<size_t>(Bytes(spec_, bias_.bytes() > 0)); }
  // Which row of the weight each lane of its panels is: [panels of all segments][kPanelRows], -1: none.
  static std::vector<int64_t> RowsOfPanels(const LinearSpec& spec);

  const std::vector<LinearRun>& runs() const { return runs_; }

  // Null: all of it lies in memory.
  WeightPieces* pieces() const { return pieces_; }

  // Row `row` of the weight as fp32 -> out [cols]. In pieces: on the engine thread, and it may throw WeightsLost. REQUIRES !spec().gated.
  void ReadRow(int64_t row, const LinearKernels& kernels, float* out) const;

 private:
  static std::vector<LinearRun> RunsOf(const LinearSpec& spec);
  void PackBias(std::span<const float> bias);
  void PackPanels(const LinearSegment& segment, const WeightRows& rows, const LinearKernels& kernels, int64_t begin,
                  int64_t end);

  CpuBuffer data_;  // the panels of all segments
  CpuBuffer bias_;  // [panels of all segments][kPanelRows] fp32, or empty
  std::vector<LinearRun> runs_;
  WeightPieces* pieces_ = nullptr;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_LINEAR_CPU_LINEAR_H_
