// WordCache remembers what the words of one text became, so that the merges of a frequent word are looked for once.
//
// Thread: one. Bounded: every word has one place, and the newest word keeps it. Words made to share a place gain nothing.
#ifndef HYDRANT_MODEL_TOKENIZER_WORD_CACHE_H_
#define HYDRANT_MODEL_TOKENIZER_WORD_CACHE_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace hydrant {

class WordCache {
 public:
  // For a text of `bytes`: a place for every third word, up to half a megabyte.
  explicit WordCache(size_t bytes) : entries_(std::clamp(std::bit_ceil(bytes / 16 + 1), size_t{16}, size_t{8192})) {}

  // Appends the ids of a remembered word and returns true.
  bool Append(std::string_view word, std::vector<int32_t>& ids) const {
    if (word.size() > kWordBytesMax) return false;
    const Entry& entry = entries_[Place(word)];
    if (entry.bytes != word.size() || std::memcmp(entry.word.data(), word.data(), word.size()) != 0) return false;
    ids.insert(ids.end(), entry.ids.begin(), entry.ids.begin() + entry.count);
    return true;
  }

  void Remember(std::string_view word, std::span<const int32_t> ids) {
    if (word.empty() || word.size() > kWordBytesMax || ids.size() > kIdsMax) return;
    Entry& entry = entries_[Place(word)];
    entry.bytes = static_cast<uint8_t>(word.size());
    entry.count = static_cast<uint8_t>(ids.size());
    std::memcpy(entry.word.data(), word.data(), word.size());
    std::copy(ids.begin(), ids.end(), entry.ids.begin());
  }

 private:
  // Together an entry is one cache line; longer words are rare and seldom the same.
  static constexpr size_t kWordBytesMax = 30;
  static constexpr size_t kIdsMax = 8;
  struct alignas(64) Entry {
    uint8_t bytes = 0;  // 0: free
    uint8_t count = 0;
    std::array<char, kWordBytesMax> word;
    std::array<int32_t, kIdsMax> ids;
  };

  size_t Place(std::string_view word) const {
    uint64_t hash = word.size();
    for (size_t at = 0; at < word.size(); at += 8) {
      uint64_t part = 0;
      std::memcpy(&part, word.data() + at, std::min<size_t>(8, word.size() - at));
      hash = (hash ^ part) * 0x9E3779B97F4A7C15ull;
      hash ^= hash >> 32;
    }
    return hash & (entries_.size() - 1);
  }

  std::vector<Entry> entries_;  // a power of two
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TOKENIZER_WORD_CACHE_H_
