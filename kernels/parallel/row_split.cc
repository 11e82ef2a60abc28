#include "kernels/parallel/row_split.h"

#include <algorithm>
#include <cassert>

namespace hydrant {
namespace {

std::vector<LinearPart> PartsOf(const LinearSpec& spec) {
  return spec.parts.empty() ? std::vector<LinearPart>{{spec.rows, spec.format}} : spec.parts;
}

// Rows that are divided by themselves.
std::vector<Share> SectionsOf(const LinearSpec& spec) {
  if (spec.key_rows > 0) {
    const int64_t queries = spec.rows - 2 * spec.key_rows;
    return {{0, queries}, {queries, queries + spec.key_rows}, {queries + spec.key_rows, spec.rows}};
  }
  if (spec.gated) return {{0, spec.rows / 2}, {spec.rows / 2, spec.rows}};
  return {{0, spec.rows}};
}

// Calls each(from, to) for the rows of the whole weight that rows [begin, end) of the rank's are, in their order.
template <typename Each>
void ForRows(const std::vector<Share>& sections, int64_t begin, int64_t end, const Each& each) {
  int64_t first = 0;
  for (const Share& section : sections) {
    const int64_t from = std::max(begin, first), to = std::min(end, first + section.size());
    if (from < to) each(section.begin + from - first, section.begin + to - first);
    first += section.size();
  }
}

WeightFormat FormatAt(const std::vector<LinearPart>& parts, int64_t row) {
  for (const LinearPart& part : parts) {
    if (row < part.rows) return part.format;
    row -= part.rows;
  }
  assert(false);
  return WeightFormat::kF32;
}

}  // namespace

RowSplit::RowSplit(const LinearSpec& whole, int rank, int ranks) : spec_(whole), whole_parts_(PartsOf(whole)) {
  assert(0 <= rank && rank < ranks && whole.key_rows % ranks == 0);
  spec_.rows = 0;
  spec_.key_rows = whole.key_rows / ranks;
  spec_.use = LinearUse::kProduct;
  spec_.parts.clear();
  for (const Share& section : SectionsOf(whole)) {
    const Share share = ShareOf(section.size(), rank, ranks);
    assert(share.size() > 0);
    if (section.begin == 0) outputs_ = share;
    sections_.push_back({section.begin + share.begin, section.begin + share.end});
    spec_.rows += share.size();
  }
  if (whole.key_rows > 0) outputs_ = {0, spec_.rows};
  if (whole.parts.empty()) return;
  for (const Share& section : sections_) {
    int64_t first = 0;
    for (const LinearPart& part : whole_parts_) {
      const int64_t rows = std::min(section.end, first + part.rows) - std::max(section.begin, first);
      if (rows > 0) spec_.parts.push_back({rows, part.format});
      first += part.rows;
    }
  }
  spec_.format = spec_.parts.front().format;
}

WeightRows RowSplit::RowsOf(const WeightRows& whole) const {
  const RowReader fp32 = [rows = whole.fp32, sections = sections_, cols = spec_.cols](int64_t begin, int64_t end,
                                                                                      float* out) {
    ForRows(sections, begin, end, [&](int64_t from, int64_t to) {
      rows(from, to, out);
      out += (to - from) * cols;
    });
  };
  if (!whole.stored) return fp32;
  return {fp32, [rows = whole.stored, sections = sections_, cols = spec_.cols, parts = whole_parts_](
                    int64_t begin, int64_t end, std::byte* out) {
            ForRows(sections, begin, end, [&](int64_t from, int64_t to) {
              rows(from, to, out);
              out += (to - from) * RowBytes(FormatAt(parts, from), cols);
            });
          }};
}

std::vector<float> RowSplit::BiasOf(std::span<const float> whole) const {
  std::vector<float> bias;
  if (whole.empty()) return bias;
  bias.reserve(static_cast<size_t>(spec_.rows));
  for (const Share& section : sections_) {
    bias.insert(bias.end(), whole.begin() + section.begin, whole.begin() + section.end);
  }
  return bias;
}

}  // namespace hydrant
