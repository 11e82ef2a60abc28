#include "kernels/cpu/attention/pins.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

namespace hydrant {
namespace {

constexpr int32_t kWordBits = 64;

// True if a segment begins after position `from` and not after position `to`.
bool SegmentBegins(std::span<const uint64_t> starts, int32_t from, int32_t to) {
  for (int32_t position = from + 1; position <= to;) {
    const auto word = static_cast<size_t>(position / kWordBits);
    const int32_t begin = position % kWordBits, count = std::min(kWordBits - begin, to + 1 - position);
    const uint64_t bits = starts[word] >> begin;
    if ((count == kWordBits ? bits : bits & ((uint64_t{1} << count) - 1)) != 0) return true;
    position += count;
  }
  return false;
}

class PinSlots {
 public:
  explicit PinSlots(const ScoreView& scores) : scores_(scores) {}
  int32_t Position(int32_t slot) const { return scores_.position[At(slot)]; }
  float& Score(int32_t slot) const { return scores_.score[At(slot)]; }

 private:
  ptrdiff_t At(int32_t slot) const {
    return scores_.score_table[slot / kBlockSlots] * scores_.stride + slot % kBlockSlots;
  }
  const ScoreView& scores_;
};

}  // namespace

void ChoosePins(const BatchRow& row, const ScoreView& scores, int32_t first_seen, const float* sums,
                const PinScratch& scratch) {
  assert(row.chooses_pins() && !row.policy.rolling);
  const PinSlots slots(scores);
  const int32_t end = row.prompt_length - row.policy.recent;
  int32_t* order = scratch.slots;
  int32_t count = 0;
  for (int32_t slot = 0; slot < row.live_after(); ++slot) {
    const int32_t position = slots.Position(slot);
    if (position >= first_seen && position < end) order[count++] = slot;
  }
  const auto by_position = [&](int32_t a, int32_t b) { return slots.Position(a) < slots.Position(b); };
  if (!std::is_sorted(order, order + count, by_position)) std::sort(order, order + count, by_position);

  const auto pointed_at = [&](int32_t slot) {
    return std::abs(PinScore(sums[slot], slots.Score(slot), slots.Position(slot), row.prompt_length));
  };
  float before = 0.0f;  // A of the segment before
  for (int32_t begin = 0; begin < count;) {
    float largest = pointed_at(order[begin]);
    int32_t next = begin + 1;
    for (; next < count; ++next) {
      if (SegmentBegins(row.segment_starts, slots.Position(order[next - 1]), slots.Position(order[next]))) break;
      largest = std::max(largest, pointed_at(order[next]));
    }
    const float of_segment = std::max(largest, kBehind * before);
    for (int32_t i = begin; i < next; ++i) {
      // Smaller is better, as in a cut: A' descending, then position ascending; places stand in the order of positions.
      scratch.keys[i] = (uint64_t{~std::bit_cast<uint32_t>(of_segment)} << 32) | static_cast<uint32_t>(i);
    }
    before = largest;
    begin = next;
  }

  const int32_t pins = std::min(row.policy.pins(), count);
  if (pins == 0) return;
  std::nth_element(scratch.keys, scratch.keys + pins - 1, scratch.keys + count);
  for (int32_t i = 0; i < pins; ++i) {
    float& score = slots.Score(order[scratch.keys[i] & 0xffffffffu]);
    assert(!std::signbit(score));
    score = -score;
  }
}

}  // namespace hydrant
