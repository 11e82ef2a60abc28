#include "model/grammar/regex/seen_keys.h"

#include <algorithm>

#include "model/grammar/regex/reserve_one.h"

namespace hydrant::grammar {

bool SeenKeys::Has(int32_t set, uint64_t key) const {
  Place at = set == kNone ? kEmpty : sets_[static_cast<size_t>(set)].root;
  for (int shift = 0; at >= 0; shift += kBits) at = branches_[static_cast<size_t>(at)][Way(key, shift)];
  return IsKey(at) && this->key(SetOf(at)) == key;
}

int32_t SeenKeys::With(int32_t set, uint64_t key) {
  // All memory before anything changes.
  constexpr size_t kDeepest = 64 / kBits;
  ReserveOne(sets_);
  if (branches_.capacity() < branches_.size() + kDeepest) {
    branches_.reserve(std::max(2 * branches_.capacity(), branches_.size() + kDeepest));
  }
  const auto id = static_cast<int32_t>(sets_.size());
  const auto [found, added] = ids_.try_emplace({set, key}, id);
  if (!added) return found->second;
  const size_t before = branches_.size();
  const Place root = Add(set == kNone ? kEmpty : sets_[static_cast<size_t>(set)].root, 0, key, -2 - id);
  sets_.push_back({set, root, key, before});
  return id;
}

// What stands where `at` did, with one more key at `place`. Different keys part at the last four bits at the latest.
SeenKeys::Place SeenKeys::Add(Place at, int shift, uint64_t key, Place place) {
  if (at == kEmpty) return place;
  Branch branch;
  branch.fill(kEmpty);
  if (IsKey(at)) {
    branch[Way(this->key(SetOf(at)), shift)] = at;
  } else {
    branch = branches_[static_cast<size_t>(at)];
  }
  Place& next = branch[Way(key, shift)];
  next = Add(next, shift + kBits, key, place);
  branches_.push_back(branch);
  return static_cast<Place>(branches_.size() - 1);
}

void SeenKeys::BackTo(size_t size) {
  for (; sets_.size() > size; sets_.pop_back()) {
    const Set& last = sets_.back();
    ids_.erase(std::pair(last.rest, last.key));
    branches_.resize(last.branches);
  }
}

size_t SeenKeys::bytes() const {
  // A place in a hash map is taken twice over, as it is filled by half at least.
  constexpr size_t kIdBytes = sizeof(std::pair<std::pair<int32_t, uint64_t>, int32_t>);
  return sets_.capacity() * sizeof(Set) + branches_.capacity() * sizeof(Branch) + sets_.size() * 2 * kIdBytes;
}

}  // namespace hydrant::grammar
