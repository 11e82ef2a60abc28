// An AnswerShape whose every next token follows from those before it: what a mask of another state would allow is another token.
#ifndef HYDRANT_TESTS_ENGINE_SCRIPTED_SHAPE_H_
#define HYDRANT_TESTS_ENGINE_SCRIPTED_SHAPE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <new>
#include <span>
#include <vector>

#include "server/engine/answer_shape.h"

namespace hydrant {

class ScriptedShape : public AnswerShape {
 public:
  struct Script {
    int32_t vocab = 0;
    uint64_t key = 0;
    int32_t choices = 1;  // tokens that a mask allows
    int32_t first = 3;    // no lower id is one of them
    int32_t end_id = -1;  // >= 0: allowed as well when the text is complete, and then alone
    // After so many tokens: the text is complete, Push says that it is lost, Mask meets a limit, finds no memory, or allows nothing.
    int32_t complete_after = std::numeric_limits<int32_t>::max();
    int32_t lost_after = std::numeric_limits<int32_t>::max();
    int32_t limit_after = std::numeric_limits<int32_t>::max();
    int32_t no_memory_after = std::numeric_limits<int32_t>::max();
    int32_t nothing_after = std::numeric_limits<int32_t>::max();
    bool is_promised = true;
    int32_t unmasked_of = 1;                 // after a number of tokens that this does not divide any token may come
    std::function<void()> before_mask = {};  // on the thread of masks
  };

  explicit ScriptedShape(Script script) : script_(std::move(script)) {}

  bool is_promised() const override { return script_.is_promised; }

  Verdict Push(int32_t token) override {
    pushed.push_back(token);
    if (std::ssize(pushed) >= script_.lost_after) return Verdict::kLost;
    return std::ssize(pushed) >= script_.complete_after ? Verdict::kComplete : Verdict::kGoesOn;
  }

  bool is_masked() const override { return std::ssize(pushed) % script_.unmasked_of == 0; }

  bool Mask(std::span<uint32_t> bits) override {
    if (script_.before_mask) script_.before_mask();
    ++masks;
    std::fill(bits.begin(), bits.end(), 0);
    const int64_t after = std::ssize(pushed);
    if (after >= script_.no_memory_after) throw std::bad_alloc();
    if (after >= script_.limit_after) return false;
    if (after >= script_.nothing_after) return true;
    for (const int32_t id : AllowedAfter(pushed)) bits[static_cast<size_t>(id) / 32] |= 1u << (id % 32);
    return true;
  }

  // The tokens that may follow these.
  std::vector<int32_t> AllowedAfter(std::span<const int32_t> tokens) const {
    if (script_.end_id >= 0 && std::ssize(tokens) >= script_.complete_after) return {script_.end_id};
    uint64_t hash = script_.key + 1;
    for (const int32_t token : tokens) hash = (hash ^ static_cast<uint64_t>(token)) * 0x9e3779b97f4a7c15u + 77;
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < script_.choices; ++i) {
      hash = (hash ^ (hash >> 29)) * 0xbf58476d1ce4e5b9u;
      ids.push_back(script_.first +
                    static_cast<int32_t>((hash >> 33) % static_cast<uint64_t>(script_.vocab - script_.first)));
    }
    return ids;
  }
  // Every token is one that could follow those before it.
  bool Allows(std::span<const int32_t> tokens) const {
    for (size_t i = 0; i < tokens.size(); ++i) {
      const std::vector<int32_t> allowed = AllowedAfter(tokens.first(i));
      if (std::find(allowed.begin(), allowed.end(), tokens[i]) == allowed.end()) return false;
    }
    return true;
  }

  std::vector<int32_t> pushed;
  int32_t masks = 0;  // computed

 private:
  const Script script_;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_ENGINE_SCRIPTED_SHAPE_H_
