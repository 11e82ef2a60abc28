#include "kernels/cpu/linear/cpu_linear.h"

#include <algorithm>
#include <cassert>
#include <memory>

namespace hydrant {
namespace {

int64_t PanelOutputs(const LinearSpec& spec) { return spec.gated ? kPanelRows / 2 : kPanelRows; }

int64_t Outputs(const LinearSpec& spec) { return spec.gated ? spec.rows / 2 : spec.rows; }

int64_t PanelCount(const LinearSpec& spec) { return (Outputs(spec) + PanelOutputs(spec) - 1) / PanelOutputs(spec); }

int64_t PanelBytes(const LinearSpec& spec) {
  const int64_t cols = spec.dtype == DType::kBF16 ? (spec.cols + 1) / 2 * 2 : spec.cols;
  return cols * kPanelRows * static_cast<int64_t>(DTypeBytes(spec.dtype));
}

// Where lane `lane` of panel `panel` comes from: a row of the weight, or -1.
int64_t SourceRow(const LinearSpec& spec, int64_t panel, int64_t lane) {
  const int64_t output = panel * PanelOutputs(spec) + lane % PanelOutputs(spec);
  if (output >= Outputs(spec)) return -1;
  return lane < PanelOutputs(spec) ? output : output + spec.rows / 2;
}

}  // namespace

CpuLinear::CpuLinear(const LinearSpec& spec, const RowReader& reader, std::span<const float> bias,
                     const LinearKernels& kernels, ThreadPool& pool)
    : LinearWeight(spec),
      panels_(PanelCount(spec)),
      data_(static_cast<size_t>(panels_ * PanelBytes(spec))),
      bias_(bias.empty() ? 0 : static_cast<size_t>(panels_ * kPanelRows) * sizeof(float)) {
  assert(spec.rows > 0 && spec.cols > 0);
  assert(!spec.gated || spec.rows % 2 == 0);
  assert(bias.empty() || static_cast<int64_t>(bias.size()) == spec.rows);
  packed_.data = data_.data();
  packed_.dtype = spec.dtype;
  packed_.inputs = spec.cols;
  packed_.outputs = Outputs(spec);
  packed_.panel_outputs = PanelOutputs(spec);
  packed_.panel_bytes = PanelBytes(spec);
  if (!bias.empty()) {
    float* packed_bias = static_cast<float*>(bias_.data());
    for (int64_t i = 0; i < panels_ * kPanelRows; ++i) {
      const int64_t row = SourceRow(spec, i / kPanelRows, i % kPanelRows);
      packed_bias[i] = row < 0 ? 0.0f : bias[static_cast<size_t>(row)];
    }
    packed_.bias = packed_bias;
  }
  pool.ParallelFor(panels_, 1, [&](int64_t begin, int64_t end, int) { PackPanels(reader, kernels, begin, end); });
}

void CpuLinear::PackPanels(const RowReader& reader, const LinearKernels& kernels, int64_t begin, int64_t end) {
  // [kPanelRows, cols], one per thread and matrix; every row is written for every panel.
  const auto rows = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(kPanelRows * spec_.cols));
  for (int64_t panel = begin; panel < end; ++panel) {
    for (int64_t lane = 0; lane < kPanelRows; lane += PanelOutputs(spec_)) {
      const int64_t first = SourceRow(spec_, panel, lane);
      const int64_t count = std::min(PanelOutputs(spec_), packed_.outputs - panel * PanelOutputs(spec_));
      reader(first, first + count, rows.get() + lane * spec_.cols);
      std::fill(rows.get() + (lane + count) * spec_.cols, rows.get() + (lane + PanelOutputs(spec_)) * spec_.cols, 0.0f);
    }
    kernels.pack_panel(rows.get(), spec_.cols, spec_.dtype, const_cast<char*>(this->panel(panel)));
  }
}

void CpuLinear::ReadRow(int64_t row, const LinearKernels& kernels, float* out) const {
  assert(!spec_.gated);
  assert(row >= 0 && row < spec_.rows);
  kernels.unpack_row(panel(row / kPanelRows), row % kPanelRows, spec_.cols, spec_.dtype, out);
}

}  // namespace hydrant
