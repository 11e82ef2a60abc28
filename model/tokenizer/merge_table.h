// MergeTable holds the merges of a byte-pair encoding and applies them to a word: always the pair of the best rank, the
// leftmost of several, until no adjacent pair is a merge.
//
// Thread: any (immutable once filled).
#ifndef HYDRANT_MODEL_TOKENIZER_MERGE_TABLE_H_
#define HYDRANT_MODEL_TOKENIZER_MERGE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hydrant {

class MergeTable {
 public:
  // Room for `merges` of them.
  explicit MergeTable(size_t merges);

  // `left` and `right` together become `merged`; lower ranks go first. A later Add of the same pair replaces the earlier.
  void Add(int32_t left, int32_t right, uint32_t rank, int32_t merged);

  // Merges `symbols` in place. O(n log n) for n symbols.
  void Apply(std::vector<int32_t>& symbols) const;

 private:
  struct Entry {
    uint64_t key = kFree;
    uint32_t rank = kNoRank;
    int32_t merged = -1;
  };
  static constexpr uint64_t kFree = ~0ull;
  static constexpr uint32_t kNoRank = ~0u;

  static uint64_t Key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t Slot(uint64_t key) const { return static_cast<size_t>(key * 0x9E3779B97F4A7C15ull >> shift_); }
  // The entry of the pair, or one with kNoRank.
  const Entry& Find(int32_t left, int32_t right) const;
  void ApplyToShort(std::vector<int32_t>& symbols) const;
  void ApplyToLong(std::vector<int32_t>& symbols) const;

  int shift_;
  std::vector<Entry> entries_;  // open addressing, at most half full, a power of two
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TOKENIZER_MERGE_TABLE_H_
