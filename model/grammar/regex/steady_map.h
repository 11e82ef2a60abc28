// SteadyMap is a flat_hash_map that is as it was where memory runs out as something is added. Abseil's own notes its new size before it
// has the memory, and can be neither used nor destroyed then.
//
// Thread: one at a time.
#ifndef HYDRANT_MODEL_GRAMMAR_REGEX_STEADY_MAP_H_
#define HYDRANT_MODEL_GRAMMAR_REGEX_STEADY_MAP_H_

#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace hydrant::grammar {

template <typename K, typename V>
class SteadyMap {
  using Map = absl::flat_hash_map<K, V>;

 public:
  SteadyMap() = default;
  // A constructor that fails leaves nothing to destroy.
  SteadyMap(const SteadyMap& other) : map_(other.map_.capacity()) {
    for (const auto& each : other.map_) map_.insert(each);
  }
  SteadyMap(SteadyMap&& other) noexcept : map_(std::move(other.map_)) {}
  SteadyMap& operator=(SteadyMap other) noexcept {
    map_.swap(other.map_);
    return *this;
  }

  template <typename Key>
  auto find(const Key& key) {
    return map_.find(key);
  }
  auto end() { return map_.end(); }
  template <typename Key>
  bool contains(const Key& key) const {
    return map_.contains(key);
  }
  template <typename Key>
  const V& at(const Key& key) const {
    return map_.at(key);
  }
  size_t size() const { return map_.size(); }
  void clear() { map_.clear(); }
  template <typename Key>
  void erase(const Key& key) {
    map_.erase(key);
  }
  template <typename... Parts>
  auto try_emplace(const K& key, Parts&&... parts) {
    Grow();
    // A place that is taken must be filled by something that cannot fail.
    K own_key = key;
    V value(std::forward<Parts>(parts)...);
    return map_.try_emplace(std::move(own_key), std::move(value));
  }
  V& operator[](const K& key) { return try_emplace(key).first->second; }

 private:
  // Room for one more. Up to 25 of 32 places Abseil makes room without memory; below that it may not, in the smallest.
  void Grow() {
    if (map_.capacity() >= 31 && (map_.size() + 1) * 32 <= map_.capacity() * 25) return;
    Map larger(map_.capacity() < 31 ? 31 : 2 * map_.capacity() + 1);
    for (auto each = map_.begin(); each != map_.end();) larger.insert(map_.extract(each++));
    map_.swap(larger);
  }

  Map map_;
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_REGEX_STEADY_MAP_H_
