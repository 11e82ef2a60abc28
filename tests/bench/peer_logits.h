// What `llama-perplexity --save-all-logits FILE` writes: tokens, and log p of every token at the positions of each context's
// second half. A log p is kept in 16 bits between the largest and 16 below: steps of 2.4e-4.
#ifndef HYDRANT_TESTS_BENCH_PEER_LOGITS_H_
#define HYDRANT_TESTS_BENCH_PEER_LOGITS_H_

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hydrant {

class PeerLogits {
 public:
  // Afterwards ok() says whether it is such a file.
  explicit PeerLogits(const std::string& path) : file_(path, std::ios::binary) {
    std::array<char, 8> magic = {};
    std::array<int32_t, 3> head = {};
    file_.read(magic.data(), magic.size());
    file_.read(reinterpret_cast<char*>(head.data()), sizeof(head));
    const int64_t size_max = int64_t{1} << 28;
    const bool known = file_ && std::string_view(magic.data(), magic.size()) == "_logits_" && head[0] > 1 &&
                       head[1] > 0 && head[2] > 0 && int64_t{head[0]} * head[2] < size_max && head[1] < size_max;
    if (!known) return;
    context_ = head[0];
    vocab_ = head[1];
    ids_.resize(static_cast<size_t>(context_) * static_cast<size_t>(head[2]));
    file_.read(reinterpret_cast<char*>(ids_.data()), static_cast<std::streamsize>(ids_.size() * sizeof(int32_t)));
    row_.resize(static_cast<size_t>(vocab_ + vocab_ % 2) + kScaleWords);
  }

  bool ok() const { return file_.good() && !ids_.empty(); }
  int32_t context() const { return context_; }
  int32_t vocab() const { return vocab_; }
  int32_t first() const { return context_ / 2; }  // position of a text that is the first with a log p
  // Text by text. Each begins with a token that the peer replaces by its model's first one, if that has one.
  std::span<const int32_t> ids() const { return ids_; }

  // log p of the next position, [vocab]; texts and positions in their order. Minus infinity: less than what is kept. False: there
  // is none.
  bool Next(std::vector<double>* out) {
    if (!file_.read(reinterpret_cast<char*>(row_.data()), static_cast<std::streamsize>(row_.size() * 2))) return false;
    std::array<float, 2> scale_and_least;
    std::memcpy(scale_and_least.data(), row_.data(), sizeof(scale_and_least));
    out->clear();
    for (int32_t i = 0; i < vocab_; ++i) {
      const uint16_t code = row_[static_cast<size_t>(i) + kScaleWords];
      out->push_back(code == 0 ? -std::numeric_limits<double>::infinity()
                               : double{scale_and_least[1]} + double{scale_and_least[0]} * code);
    }
    return true;
  }

 private:
  static constexpr size_t kScaleWords = 4;  // two floats before the codes

  std::ifstream file_;
  int32_t context_ = 0, vocab_ = 0;
  std::vector<int32_t> ids_;
  std::vector<uint16_t> row_;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_BENCH_PEER_LOGITS_H_
