#include "kernels/cpu/linear/cpu_linear.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <memory>

#include "kernels/cpu/linear/quantised_layout.h"

namespace hydrant {
namespace {

int64_t PanelBytes(WeightFormat format, int64_t cols) {
  if (IsQuantised(format)) return QuantisedPanelBytes(format, cols);
  return kPanelRows * RowBytes(format, format == WeightFormat::kBF16 ? (cols + 1) / 2 * 2 : cols);
}

// Rows that become one segment.
struct SegmentRows {
  WeightFormat format = WeightFormat::kF32;
  int64_t first_row = 0;
  int64_t outputs = 0;
  int64_t panel_outputs = kPanelRows;
  int64_t first_output = 0;
  RunPart part = RunPart::kWhole;

  int64_t panels() const { return (outputs + panel_outputs - 1) / panel_outputs; }
};

std::vector<SegmentRows> SegmentsOf(const LinearSpec& spec) {
  std::vector<LinearPart> parts = spec.parts;
  if (parts.empty()) parts.push_back({spec.rows, spec.format});
  const bool mixed = std::any_of(parts.begin(), parts.end(),
                                 [&](const LinearPart& part) { return part.format != parts.front().format; });
  if (spec.gated && !mixed) {
    return {{.format = parts.front().format, .outputs = spec.rows / 2, .panel_outputs = kPanelRows / 2}};
  }
  if (spec.gated) {
    const int64_t half = spec.rows / 2;
    assert(parts.size() == 2 && parts[0].rows == half && parts[1].rows == half);
    return {{.format = parts[0].format, .outputs = half, .part = RunPart::kGate},
            {.format = parts[1].format, .first_row = half, .outputs = half, .part = RunPart::kUp}};
  }
  std::vector<SegmentRows> segments;
  int64_t row = 0;
  for (const LinearPart& part : parts) {
    segments.push_back({.format = part.format, .first_row = row, .outputs = part.rows, .first_output = row});
    row += part.rows;
  }
  return segments;
}

int64_t AllPanels(const LinearSpec& spec) {
  int64_t panels = 0;
  for (const SegmentRows& segment : SegmentsOf(spec)) panels += segment.panels();
  return panels;
}

int64_t AllPanelBytes(const LinearSpec& spec) {
  int64_t bytes = 0;
  for (const SegmentRows& segment : SegmentsOf(spec)) bytes += segment.panels() * PanelBytes(segment.format, spec.cols);
  return bytes;
}

int64_t BiasBytes(const LinearSpec& spec) { return AllPanels(spec) * kPanelRows * static_cast<int64_t>(sizeof(float)); }

// Where lane `lane` of a segment's panel comes from: a row of the weight, or -1. Side by side, the up projection's rows are those
// behind the gate's.
int64_t SourceRow(int64_t first_row, int64_t outputs, int64_t panel_outputs, int64_t up_rows, int64_t panel,
                  int64_t lane) {
  const int64_t output = panel * panel_outputs + lane % panel_outputs;
  if (output >= outputs) return -1;
  return first_row + output + (lane < panel_outputs ? 0 : up_rows);
}
int64_t SourceRow(const LinearSegment& segment, int64_t panel, int64_t lane) {
  return SourceRow(segment.first_row, segment.packed.outputs, segment.packed.panel_outputs, segment.up_rows, panel,
                   lane);
}

// Panels [begin, end) of a segment as one of their own.
LinearSegment Slice(const LinearSegment& segment, int64_t begin, int64_t end) {
  LinearSegment slice = segment;
  const int64_t outputs = begin * segment.packed.panel_outputs;
  slice.packed.outputs = std::min(segment.packed.outputs - outputs, (end - begin) * segment.packed.panel_outputs);
  slice.first_row += outputs;
  slice.first_output += outputs;
  slice.panels = end - begin;
  slice.weight_panel += begin;
  return slice;
}

// The runs cut into runs of at most `bytes_max` each, if a panel has no more, numbered as pieces from 0 on.
std::vector<LinearRun> CutRuns(const std::vector<LinearRun>& runs, int64_t bytes_max) {
  std::vector<LinearRun> cut;
  for (const LinearRun& run : runs) {
    int64_t left = 0;
    const auto begin_piece = [&] {
      left = bytes_max;
      cut.push_back({.quantised = run.quantised, .part = run.part, .piece = static_cast<int32_t>(cut.size())});
    };
    begin_piece();
    for (const LinearSegment& segment : run.segments) {
      for (int64_t panel = 0; panel < segment.panels;) {
        if (left < segment.packed.panel_bytes && !cut.back().segments.empty()) begin_piece();
        const int64_t fit = std::max<int64_t>(1, left / segment.packed.panel_bytes);
        const int64_t end = std::min(segment.panels, panel + fit);
        LinearSegment slice = Slice(segment, panel, end);
        slice.first_panel = cut.back().panels;
        cut.back().panels += slice.panels;
        cut.back().segments.push_back(slice);
        left -= slice.panels * slice.packed.panel_bytes;
        panel = end;
      }
    }
  }
  return cut;
}

}  // namespace

Epilogue EpilogueOf(RunPart part, Epilogue epilogue) {
  assert(part == RunPart::kWhole || epilogue == Epilogue::kGate);
  switch (part) {
    case RunPart::kGate:
      return Epilogue::kActivate;
    case RunPart::kUp:
      return Epilogue::kScale;
    case RunPart::kWhole:
      break;
  }
  return epilogue;
}

const char* LinearRun::panel(int64_t index) const {
  const LinearSegment* segment = &segments.back();
  while (index < segment->first_panel) --segment;
  return segment->panel(index - segment->first_panel);
}

// With null data.
std::vector<LinearRun> CpuLinear::RunsOf(const LinearSpec& spec) {
  std::vector<LinearRun> runs;
  int64_t panels = 0;
  for (const SegmentRows& rows_of : SegmentsOf(spec)) {
    const bool quantised = IsQuantised(rows_of.format);
    assert(!quantised || LayoutOf(rows_of.format).code_bits > 0);
    const auto found = std::find_if(runs.begin(), runs.end(), [&](const LinearRun& run) {
      return run.quantised == quantised && run.part == rows_of.part;
    });
    LinearRun& run =
        found != runs.end() ? *found : runs.emplace_back(LinearRun{.quantised = quantised, .part = rows_of.part});
    LinearSegment segment{.packed = {.format = rows_of.format,
                                     .inputs = spec.cols,
                                     .outputs = rows_of.outputs,
                                     .panel_outputs = rows_of.panel_outputs,
                                     .panel_bytes = PanelBytes(rows_of.format, spec.cols)},
                          .first_row = rows_of.first_row,
                          .first_output = rows_of.first_output,
                          .first_panel = run.panels,
                          .panels = rows_of.panels(),
                          .weight_panel = panels,
                          .up_rows = rows_of.outputs};
    panels += segment.panels;
    run.panels += segment.panels;
    run.segments.push_back(segment);
  }
  return runs;
}

CpuLinear::CpuLinear(const LinearSpec& spec, const WeightRows& rows, std::span<const float> bias,
                     const LinearKernels& kernels, ThreadPool& pool)
    : LinearWeight(spec),
      data_(static_cast<size_t>(AllPanelBytes(spec))),
      bias_(bias.empty() ? 0 : static_cast<size_t>(BiasBytes(spec))),
      runs_(RunsOf(spec)) {
  assert(spec.rows > 0 && spec.cols > 0);
  assert(!spec.gated || spec.rows % 2 == 0);
  // Segments lie in the order of their panels, whatever run they belong to.
  std::vector<LinearSegment*> segments;
  for (LinearRun& run : runs_) {
    for (LinearSegment& segment : run.segments) segments.push_back(&segment);
  }
  std::sort(segments.begin(), segments.end(),
            [](const LinearSegment* a, const LinearSegment* b) { return a->weight_panel < b->weight_panel; });
  const char* data = static_cast<const char*>(data_.data());
  for (LinearSegment* segment : segments) {
    segment->packed.data = data;
    data += segment->panels * segment->packed.panel_bytes;
  }
  PackBias(bias);
  for (const LinearRun& run : runs_) {
    for (const LinearSegment& segment : run.segments) {
      pool.ParallelFor(segment.panels, 1,
                       [&](int64_t begin, int64_t end, int) { PackPanels(segment, rows, kernels, begin, end); });
    }
  }
}

CpuLinear::CpuLinear(const LinearSpec& spec, std::span<const float> bias, WeightPieces& pieces, int32_t first,
                     int64_t piece_bytes_max)
    : LinearWeight(spec),
      data_(0),
      bias_(bias.empty() ? 0 : static_cast<size_t>(BiasBytes(spec))),
      runs_(CutRuns(RunsOf(spec), piece_bytes_max)),
      pieces_(&pieces) {
  for (LinearRun& run : runs_) {
    run.piece += first;
    const char* data = reinterpret_cast<const char*>(pieces.address(run.piece));
    for (LinearSegment& segment : run.segments) {
      segment.packed.data = data;
      data += segment.panels * segment.packed.panel_bytes;
    }
  }
  PackBias(bias);
}

std::vector<int64_t> CpuLinear::PieceBytes(const LinearSpec& spec, int64_t piece_bytes_max) {
  std::vector<int64_t> bytes;
  for (const LinearRun& run : CutRuns(RunsOf(spec), piece_bytes_max)) {
    int64_t& sum = bytes.emplace_back(0);
    for (const LinearSegment& segment : run.segments) sum += segment.panels * segment.packed.panel_bytes;
  }
  return bytes;
}

int64_t CpuLinear::PanelBytesMax(const LinearSpec& spec) {
  int64_t most = 0;
  for (const SegmentRows& segment : SegmentsOf(spec)) most = std::max(most, PanelBytes(segment.format, spec.cols));
  return most;
}

void CpuLinear::PackPiece(int32_t piece, const WeightRows& rows, const LinearKernels& kernels, ThreadPool& pool) {
  assert(pieces_ != nullptr);
  for (const LinearSegment& segment : runs_[static_cast<size_t>(piece)].segments) {
    pool.ParallelFor(segment.panels, 1,
                     [&](int64_t begin, int64_t end, int) { PackPanels(segment, rows, kernels, begin, end); });
  }
}

int64_t CpuLinear::Bytes(const LinearSpec& spec, bool biased) {
  return AllPanelBytes(spec) + (biased ? BiasBytes(spec) : 0);
}

std::vector<int64_t> CpuLinear::RowsOfPanels(const LinearSpec& spec) {
  std::vector<int64_t> rows;
  for (const SegmentRows& segment : SegmentsOf(spec)) {
    for (int64_t lane = 0; lane < segment.panels() * kPanelRows; ++lane) {
      rows.push_back(SourceRow(segment.first_row, segment.outputs, segment.panel_outputs, segment.outputs,
                               lane / kPanelRows, lane % kPanelRows));
    }
  }
  return rows;
}

void CpuLinear::PackBias(std::span<const float> bias) {
  assert(bias.empty() || static_cast<int64_t>(bias.size()) == spec_.rows);
  if (bias.empty()) return;
  for (LinearRun& run : runs_) {
    for (LinearSegment& segment : run.segments) {
      auto* packed = static_cast<float*>(bias_.data()) + segment.weight_panel * kPanelRows;
      segment.packed.bias = packed;
      for (int64_t i = 0; i < segment.panels * kPanelRows; ++i) {
        const int64_t row = SourceRow(segment, i / kPanelRows, i % kPanelRows);
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
    const int64_t in_panel = segment.packed.panel_outputs;
    for (int64_t lane = 0; lane < kPanelRows; lane += in_panel) {
      const int64_t first = SourceRow(segment, panel, lane);
      const int64_t count = std::min(in_panel, segment.packed.outputs - panel * in_panel);
      std::byte* to = panel_rows.get() + static_cast<size_t>(lane) * row_bytes;
      if (quantised) {
        rows.stored(first, first + count, to);
      } else {
        rows.fp32(first, first + count, reinterpret_cast<float*>(to));
      }
      std::memset(to + static_cast<size_t>(count) * row_bytes, 0, static_cast<size_t>(in_panel - count) * row_bytes);
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
      if (pieces_ != nullptr) {
        const char* address = reinterpret_cast<const char*>(pieces_->address(run.piece));
        panel = reinterpret_cast<const char*>(pieces_->Part(run.piece, panel - address, segment.packed.panel_bytes));
      }
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
