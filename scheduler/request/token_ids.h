// TokenIds is a list of token ids that never changes. Copies share it, so the samples of one prompt cost its memory once.
// It keeps a span of the ids beside their owner: who plans a step asks for the length of each prompt, and need not go through
// the owner for it.
//
// Thread: any.
#ifndef HYDRANT_SCHEDULER_REQUEST_TOKEN_IDS_H_
#define HYDRANT_SCHEDULER_REQUEST_TOKEN_IDS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace hydrant {

class TokenIds {
 public:
  TokenIds() = default;
  // Implicit: a list of ids is a TokenIds.
  TokenIds(std::vector<int32_t> ids)
      : owner_(std::make_shared<const std::vector<int32_t>>(std::move(ids))), ids_(*owner_) {}
  TokenIds(std::initializer_list<int32_t> ids) : TokenIds(std::vector<int32_t>(ids)) {}
  TokenIds(const TokenIds&) = default;
  TokenIds& operator=(const TokenIds&) = default;
  // Leaves `other` empty: its span must not outlive the owner.
  TokenIds(TokenIds&& other) noexcept : owner_(std::move(other.owner_)), ids_(std::exchange(other.ids_, {})) {}
  TokenIds& operator=(TokenIds&& other) noexcept {
    owner_ = std::move(other.owner_);
    ids_ = std::exchange(other.ids_, {});
    return *this;
  }

  size_t size() const { return ids_.size(); }
  bool empty() const { return ids_.empty(); }
  int32_t operator[](size_t i) const { return ids_[i]; }
  int32_t front() const { return ids_.front(); }
  const int32_t* data() const { return ids_.data(); }
  const int32_t* begin() const { return data(); }
  const int32_t* end() const { return data() + size(); }

  const std::vector<int32_t>& vector() const {
    static const std::vector<int32_t> none;
    return owner_ == nullptr ? none : *owner_;
  }
  operator const std::vector<int32_t>&() const { return vector(); }

  friend bool operator==(const TokenIds& a, const TokenIds& b) { return std::ranges::equal(a.ids_, b.ids_); }

 private:
  std::shared_ptr<const std::vector<int32_t>> owner_;  // null: none
  std::span<const int32_t> ids_;                       // all of the owner's
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_REQUEST_TOKEN_IDS_H_
