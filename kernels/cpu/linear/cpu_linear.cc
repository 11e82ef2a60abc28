#include "kernels/cpu/linear/cpu_linear.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <memory>

#include "kernels/cpu/linear/quantised_layout.h"

namespace hydrant {
namespace {

int64_t PanelOutputs(const LinearSpec& spec) { return spec.gated ? kPanelRows / 2 : kPanelRows; }

int64_t PanelCount(const LinearSpec& spec, int64_t rows) {
  const int64_t outputs = spec.gated ? rows / 2 : rows;
  return (outputs + PanelOutputs(spec) - 1) / PanelOutputs(spec);
}

int64_t PanelBytes(WeightFormat format, int64_t cols) {
  if (IsQuantised(format)) return QuantisedPanelBytes(format, cols);
  return kPanelRows * RowBytes(format, format == WeightFormat::kBF16 ? (cols + 1) / 2 * 2 : cols);
}

// The parts of a weight; a gated one is one part.
std::vector<LinearPart> PartsOf(const LinearSpec& spec) {
  if (spec.parts.empty()) return {{spec.rows, spec.format}};
  if (!spec.gated) return spec.parts;
  assert(std::all_of(spec.parts.begin(), spec.parts.end(),
                     [&](const LinearPart& part) { return part.format == spec.parts.front().format; }));
  return {{spec.rows, spec.parts.front().format}};
}

int64_t AllPanels(const LinearSpec& spec) {
  int64_t panels = 0;
  for (const LinearPart& part : PartsOf(spec)) panels += PanelCount(spec, part.rows);
  return panels;
}

int64_t AllPanelBytes(const LinearSpec& spec) {
  int64_t bytes = 0;
  for (const LinearPart& part : PartsOf(spec))
    bytes += PanelCount(spec, part.rows) * PanelBytes(part.format, spec.cols);
  return bytes;
}

int64_t BiasBytes(const LinearSpec& spec) { return AllPanels(spec) * kPanelRows * static_cast<int64_t>(sizeof(float)); }

// Where lane `lane` of a segment's panel comes from: a row of the weight, or -1.
int64_t SourceRow(const LinearSpec& spec, const LinearSegment& segment, int64_t panel, int64_t lane) {
  const int64_t output = panel * PanelOutputs(spec) + lane % PanelOutputs(spec);
  if (output >= segment.packed.outputs) return -1;
  const int64_t row = segment.first_output + output;
  return lane < PanelOutputs(spec) ? row : row + spec.rows / 2;
}

}  // namespace

const char* LinearRun::panel(int64_t index) const {
  const LinearSegment* segment = &segments.back();
  while (index < segment->first_panel) --segment;
  return segment->panel(index - segment->first_panel);
}

CpuLinear::CpuLinear(const LinearSpec& spec, const WeightRows& rows, std::span<const float> bias,
                     const LinearKernels& kernels, ThreadPool& pool)
    : LinearWeight(spec),
      data_(static_cast<size_t>(AllPanelBytes(spec))),
      bias_(bias.empty() ? 0 : static_cast<size_t>(BiasBytes(spec))) {
  assert(spec.rows > 0 && spec.cols > 0);
  assert(!spec.gated || spec.rows % 2 == 0);
  assert(bias.empty() || static_cast<int64_t>(bias.size()) == spec.rows);
  const char* data = static_cast<const char*>(data_.data());
  const float* segment_bias = bias.empty() ? nullptr : static_cast<const float*>(bias_.data());
  int64_t output = 0;
  for (const LinearPart& part : PartsOf(spec)) {
    const bool quantised = IsQuantised(part.format);
    assert(!quantised || LayoutOf(part.format).code_bits > 0);
    const auto found =
        std::find_if(runs_.begin(), runs_.end(), [&](const LinearRun& run) { return run.quantised == quantised; });
    LinearRun& run = found != runs_.end() ? *found : runs_.emplace_back(LinearRun{.quantised = quantised});
    LinearSegment segment{.packed = {.data = data,
                                     .bias = segment_bias,
                                     .format = part.format,
                                     .inputs = spec.cols,
                                     .outputs = spec.gated ? part.rows / 2 : part.rows,
                                     .panel_outputs = PanelOutputs(spec),
                                     .panel_bytes = PanelBytes(part.format, spec.cols)},
                          .first_output = output,
                          .first_panel = run.panels,
                          .panels = PanelCount(spec, part.rows)};
    data += segment.panels * segment.packed.panel_bytes;
    if (segment_bias != nullptr) segment_bias += segment.panels * kPanelRows;
    output += segment.packed.outputs;
    run.panels += segment.panels;
    run.segments.push_back(segment);
  }
  PackBias(bias);
  for (const LinearRun& run : runs_) {
    for (const LinearSegment& segment : run.segments) {
      pool.ParallelFor(segment.panels, 1,
                       [&](int64_t begin, int64_t end, int) { PackPanels(segment, rows, kernels, begin, end); });
    }
  }
}

int64_t CpuLinear::Bytes(const LinearSpec& spec, bool biased) {
  return AllPanelBytes(spec) + (biased ? BiasBytes(spec) : 0);
}

void CpuLinear::PackBias(std::span<const float> bias) {
  if (bias.empty()) return;
  for (const LinearRun& run : runs_) {
    for (const LinearSegment& segment : run.segments) {
      auto* packed = const_cast<float*>(segment.packed.bias);
      for (int64_t i = 0; i < segment.panels * kPanelRows; ++i) {
        const int64_t row = SourceRow(spec_, segment, i / kPanelRows, i % kPanelRows);
        packed[i] = row < 0 ? 0.0f : bias[static_cast<size_t>(row)];
      }
    }
  }
}

void CpuLinear::PackPanels(const LinearSegment& segment, const WeightRows& rows, const LinearKernels& kernels,
                           int64_t begin, int64_t end) {
  const WeightFormat format = segment.packed.format;
  const bool quantised = IsQuantised(format);
  const auto row_bytes =
      static_cast<size_t>(quantised ? RowBytes(format, spec_.cols) : spec_.cols * static_cast<int64_t>(sizeof(float)));
  // [kPanelRows][row_bytes], one per thread and segment; every row is written for every panel.
  const auto panel_rows = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(kPanelRows) * row_bytes);
  for (int64_t panel = begin; panel < end; ++panel) {
    for (int64_t lane = 0; lane < kPanelRows; lane += PanelOutputs(spec_)) {
      const int64_t first = SourceRow(spec_, segment, panel, lane);
      const int64_t count = std::min(PanelOutputs(spec_), segment.packed.outputs - panel * PanelOutputs(spec_));
      std::byte* to = panel_rows.get() + static_cast<size_t>(lane) * row_bytes;
      if (quantised) {
        rows.stored(first, first + count, to);
      } else {
        rows.fp32(first, first + count, reinterpret_cast<float*>(to));
      }
      std::memset(to + static_cast<size_t>(count) * row_bytes, 0,
                  static_cast<size_t>(PanelOutputs(spec_) - count) * row_bytes);
    }
    char* packed = const_cast<char*>(segment.panel(panel));
    if (quantised) {
      PackQuantisedPanel(format, panel_rows.get(), spec_.cols, packed);
    } else {
      kernels.pack_panel(reinterpret_cast<const float*>(panel_rows.get()), spec_.cols, DTypeOf(format), packed);
    }
  }
}

void CpuLinear::ReadRow(int64_t row, const LinearKernels& kernels, float* out) const {
  assert(!spec_.gated);
  assert(row >= 0 && row < spec_.rows);
  for (const LinearRun& run : runs_) {
    for (const LinearSegment& segment : run.segments) {
      const int64_t in_segment = row - segment.first_output;
      if (in_segment < 0 || in_segment >= segment.packed.outputs) continue;
      const char* panel = segment.panel(in_segment / kPanelRows);
      if (run.quantised) {
        UnpackQuantisedRow(segment.packed.format, panel, in_segment % kPanelRows, spec_.cols, out);
      } else {
        kernels.unpack_row(panel, in_segment % kPanelRows, spec_.cols, DTypeOf(segment.packed.format), out);
      }
      return;
    }
  }
}

}  // namespace hydrant
