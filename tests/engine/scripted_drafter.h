// ScriptedDrafter knows the answer, and says as much of it as it is told.
#ifndef HYDRANT_TESTS_ENGINE_SCRIPTED_DRAFTER_H_
#define HYDRANT_TESTS_ENGINE_SCRIPTED_DRAFTER_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "server/drafts/drafter.h"

namespace hydrant {

// The most that it proposes.
inline constexpr int32_t kScriptedDrafts = 5;

// kNone and kNgram are for tests that take another drafter.
enum class Guesses { kNone, kRight, kWrong, kRandom, kWrongAtTheEnd, kPastTheEnd, kNgram };

struct Drafted {
  int32_t computed = 0, right = 0;
};

class ScriptedDrafter : public Drafter {
 public:
  ScriptedDrafter(Guesses guesses, std::vector<int32_t> answer, Drafted* drafted)
      : guesses_(guesses), answer_(std::move(answer)), random_(7), drafted_(drafted) {}

  std::span<const int32_t> Propose(int32_t most, int32_t) override {
    proposal_.clear();
    for (int32_t i = 0; i < std::min(most, kScriptedDrafts); ++i) {
      const size_t at = said_ + static_cast<size_t>(i);
      int32_t token = at < answer_.size() ? answer_[at] : static_cast<int32_t>(at % 200);
      const bool wrong = guesses_ == Guesses::kWrong || (guesses_ == Guesses::kRandom && random_() % 3 == 0) ||
                         (guesses_ == Guesses::kWrongAtTheEnd && i + 1 == std::min(most, kScriptedDrafts));
      if (wrong) token = (token + 1) % 200;
      proposal_.push_back(token);
    }
    return proposal_;
  }
  void Push(int32_t) override { ++said_; }
  void Learn(int32_t computed, int32_t right) override {
    drafted_->computed += computed;
    drafted_->right += right;
  }

 private:
  const Guesses guesses_;
  const std::vector<int32_t> answer_;
  std::mt19937 random_;
  Drafted* const drafted_;
  size_t said_ = 0;
  std::vector<int32_t> proposal_;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_ENGINE_SCRIPTED_DRAFTER_H_
