// SeenKeys is sets of keys, told apart by hashes. A set is a number, and the set with one more key another one, which shares all but a few
// branches with it: to ask for a key, or to add one, takes sixteen steps at most, however many there are and whoever chose them.
//
// Thread: one at a time.
#ifndef HYDRANT_MODEL_GRAMMAR_REGEX_SEEN_KEYS_H_
#define HYDRANT_MODEL_GRAMMAR_REGEX_SEEN_KEYS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "model/grammar/regex/steady_map.h"

namespace hydrant::grammar {

class SeenKeys {
 public:
  static constexpr int32_t kNone = -1;  // the empty set

  bool Has(int32_t set, uint64_t key) const;
  // The same number for the same set and key. REQUIRES: it has not got it.
  int32_t With(int32_t set, uint64_t key);
  // The key that was added last, and the set before. REQUIRES: not kNone.
  uint64_t key(int32_t set) const { return sets_[static_cast<size_t>(set)].key; }
  int32_t rest(int32_t set) const { return sets_[static_cast<size_t>(set)].rest; }

  size_t size() const { return sets_.size(); }  // sets
  // Forgets those that were made when there were `size` already.
  void BackTo(size_t size);
  size_t bytes() const;  // about what it takes in memory

 private:
  static constexpr int kBits = 4;
  // A branch; kEmpty; below that the set that has added a key, which is alone there.
  using Place = int32_t;
  static constexpr Place kEmpty = -1;
  static bool IsKey(Place place) { return place < kEmpty; }
  static int32_t SetOf(Place key) { return -2 - key; }
  static size_t Way(uint64_t key, int shift) { return key >> shift & ((size_t{1} << kBits) - 1); }
  using Branch = std::array<Place, size_t{1} << kBits>;
  struct Set {
    int32_t rest;
    Place root;
    uint64_t key;
    size_t branches;  // that were there before it
  };

  Place Add(Place at, int shift, uint64_t key, Place place);

  std::vector<Set> sets_;
  std::vector<Branch> branches_;
  SteadyMap<std::pair<int32_t, uint64_t>, int32_t> ids_;
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_REGEX_SEEN_KEYS_H_
