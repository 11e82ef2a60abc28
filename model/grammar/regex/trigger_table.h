// TriggerTable finds the first of several texts in bytes that come one by one (Aho and Corasick, 1975): a state is how much of which
// text may just be begun.
//
// Thread: any (immutable).
#ifndef HYDRANT_MODEL_GRAMMAR_REGEX_TRIGGER_TABLE_H_
#define HYDRANT_MODEL_GRAMMAR_REGEX_TRIGGER_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hydrant::grammar {

class TriggerTable {
 public:
  static constexpr size_t kBytesMax = 8 << 10;  // of all triggers; with as many byte classes as there can be 8 MiB

  // State 0: none is begun. Of those that are the same each is kept by all states that end with it.
  // REQUIRES: none is empty; they have at most kBytesMax bytes, and few are the same.
  explicit TriggerTable(const std::vector<std::string>& triggers);

  int32_t Step(int32_t state, uint8_t byte) const {
    return next_[static_cast<size_t>(state) * classes_ + class_of_[byte]];
  }
  // Triggers that end with the byte that led here: places in the constructor's list.
  std::span<const int32_t> Fired(int32_t state) const { return fired_[static_cast<size_t>(state)]; }
  // Bytes of the longest beginning of a trigger that was just read.
  int32_t Depth(int32_t state) const { return depth_[static_cast<size_t>(state)]; }
  size_t states() const { return depth_.size(); }
  size_t triggers() const { return triggers_; }
  size_t fired_count() const { return fired_count_; }  // of all states together
  size_t bytes() const;                                // about what it takes in memory
  // No more transitions than these does a table of them have.
  static size_t CellsMax(const std::vector<std::string>& triggers);
  // For each state the least number of bytes until a trigger ends plus what that one costs, `far` where none is to be had.
  // cost[i] >= far: trigger i must not come. Of two that end at once the cheaper counts, unless one must not come.
  std::vector<int64_t> Distances(std::span<const int64_t> cost, int64_t far) const;

 private:
  size_t triggers_;
  size_t classes_ = 1;
  size_t fired_count_ = 0;                   // in all states
  std::array<uint16_t, 256> class_of_ = {};  // 0: a byte of no trigger
  std::vector<int32_t> next_;                // [states, classes]
  std::vector<std::vector<int32_t>> fired_;
  std::vector<int32_t> depth_;
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_REGEX_TRIGGER_TABLE_H_
