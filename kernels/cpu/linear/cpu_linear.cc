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
  const int64_t cols = spec.format == WeightFormat::kBF16 ? (spec.cols + 1) / 2 * 2 : spec.cols;
  return kPanelRows * RowBytes(spec.format, cols);
}

int64_t BiasBytes(const LinearSpec& spec) {
  return PanelCount(spec) * kPanelRows * static_cast<int64_t>(sizeof(float));
}

// Where lane `lane` of panel `panel` comes from: a row of the weight, or -1.
int64_t SourceRow(const LinearSpec& spec, int64_t panel, int64_t lane) {
  const int64_t output = panel * PanelOutputs(spec) + lane % PanelOutputs(spec);
  if (output >= Outputs(spec)) return -1;
  return lane < PanelOutputs(spec) ? output : output + spec.rows / 2;
}

}  // namespace

CpuLinear::CpuLinear(const LinearSpec& spec, const WeightRows& rows, std::span<const float> bias,
                     const LinearKernels& kernels, ThreadPool& pool)
    : LinearWeight(spec),
      panels_(PanelCount(spec)),
      data_(static_cast<size_t>(panels_ * PanelBytes(spec))),
      bias_(bias.empty() ? 0 : static_cast<size_t>(BiasBytes(spec))) {
  assert(spec.rows > 0 && spec.cols > 0);
  assert(!IsQuantised(spec.format) && spec.parts.empty());
  assert(!spec.gated || spec.rows % 2 == 0);
  assert(bias.empty() || static_cast<int64_t>(bias.size()) == spec.rows);
  packed_.data = data_.data();
  packed_.dtype = DTypeOf(spec.format);
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
  pool.ParallelFor(panels_, 1, [&](int64_t begin, int64_t end, int) { PackPanels(rows, kernels, begin, end); });
}

int64_t CpuLinear::Bytes(const LinearSpec& spec, bool biased) {
  return PanelCount(spec) * PanelBytes(spec) + (biased ? BiasBytes(spec) : 0);
}

void CpuLinear::PackPanels(const WeightRows& rows, const LinearKernels& kernels, int64_t begin, int64_t end) {
  // [kPanelRows, cols], one per thread and matrix; every row is written for every panel.
  const auto panel_rows = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(kPanelRows * spec_.cols));
  for (int64_t panel = begin; panel < end; ++panel) {
    for (int64_t lane = 0; lane < kPanelRows; lane += PanelOutputs(spec_)) {
      const int64_t first = SourceRow(spec_, panel, lane);
      const int64_t count = std::min(PanelOutputs(spec_), packed_.outputs - panel * PanelOutputs(spec_));
      rows.fp32(first, first + count, panel_rows.get() + lane * spec_.cols);
      std::fill(panel_rows.get() + (lane + count) * spec_.cols,
                panel_rows.get() + (lane + PanelOutputs(spec_)) * spec_.cols, 0.0f);
    }
    kernels.pack_panel(panel_rows.get(), spec_.cols, packed_.dtype, const_cast<char*>(this->panel(panel)));
  }
}

void CpuLinear::ReadRow(int64_t row, const LinearKernels& kernels, float* out) const {
  assert(!spec_.gated);
  assert(row >= 0 && row < spec_.rows);
  kernels.unpack_row(panel(row / kPanelRows), row % kPanelRows, spec_.cols, packed_.dtype, out);
}

}  // namespace hydrant
