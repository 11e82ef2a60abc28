// TokenIds is a list of token ids that never changes. Copies share it, so the samples of one prompt cost its memory once.
//
// Thread: any.
#ifndef HYDRANT_SCHEDULER_REQUEST_TOKEN_IDS_H_
#define HYDRANT_SCHEDULER_REQUEST_TOKEN_IDS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace hydrant {

class TokenIds {
 public:
  TokenIds() = default;
  // Implicit: a list of ids is a TokenIds.
  TokenIds(std::vector<int32_t> ids) : ids_(std::make_shared<const std::vector<int32_t>>(std::move(ids))) {}
  TokenIds(std::initializer_list<int32_t> ids) : TokenIds(std::vector<int32_t>(ids)) {}

  size_t size() const { return vector().size(); }
  bool empty() const { return vector().empty(); }
  int32_t operator[](size_t i) const { return vector()[i]; }
  int32_t front() const { return vector().front(); }
  const int32_t* data() const { return vector().data(); }
  const int32_t* begin() const { return data(); }
  const int32_t* end() const { return data() + size(); }

  const std::vector<int32_t>& vector() const {
    static const std::vector<int32_t> none;
    return ids_ == nullptr ? none : *ids_;
  }
  operator const std::vector<int32_t>&() const { return vector(); }

  friend bool operator==(const TokenIds& a, const TokenIds& b) { return a.vector() == b.vector(); }

 private:
  std::shared_ptr<const std::vector<int32_t>> ids_;  // null: none
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_REQUEST_TOKEN_IDS_H_
