#include "server/drafts/ngram_drafter.h"

#include <algorithm>
#include <new>
#include <utility>

namespace hydrant {
namespace {

// What a row more is taken to cost of a step with a few rows. Measured: 0.36 of one of 135 million parameters, 0.19 of 500 million,
// 0.22 of 1.5 billion.
constexpr double kRowCost = 0.25;

// Before anything is known, and how much one guess says about the next.
constexpr double kFirstChance = 0.5;
constexpr double kNewsShare = 1.0 / 8;

// After so many proposals that did not seem to pay one guess is made all the same: texts change.
constexpr int32_t kLeftOutMax = 32;

// Tokens that may be looked at for each step, and for each guess that was right, which has saved a step: a few microseconds of one that
// takes a millisecond or more, and a few dozen. A long text costs more, and has to wait until that is made up for.
constexpr int64_t kLooksPerStep = 4096, kLooksPerRight = 8 * kLooksPerStep;

}  // namespace

NgramDrafter::NgramDrafter(const NgramOptions& options, TokenIds prompt)
    : options_(options), prompt_(std::move(prompt)), chance_(kFirstChance) {
  proposal_.reserve(static_cast<size_t>(options.tokens));
}

// The number of guesses with which a step brings most tokens for its time.
int32_t NgramDrafter::WorthTrying(int32_t most) {
  double tokens = 1.0, all_right = 1.0, best_rate = 1.0;
  int32_t best = 0;
  for (int32_t n = 1; n <= most; ++n) {
    all_right *= chance_;
    tokens += all_right;
    const double rate = tokens / (1.0 + kRowCost * n);
    if (rate <= best_rate) continue;
    best_rate = rate;
    best = n;
  }
  return best;
}

// Where what is proposed begins: behind the longest of the text's ends that it has said before, of equally long ones the last. The
// text's length: nowhere.
size_t NgramDrafter::Match() {
  const size_t end = size();
  const auto longest = static_cast<size_t>(options_.lookup_max);
  size_t best = static_cast<size_t>(options_.lookup_min) - 1, begin = end;
  for (size_t behind = end - 1; behind > best; --behind) {
    ++looks_due_;
    if (at(behind - 1) != at(end - 1)) continue;
    const size_t most = std::min(longest, behind);
    size_t length = 1;
    while (length < most && at(behind - 1 - length) == at(end - 1 - length)) ++length;
    looks_due_ += static_cast<int64_t>(length);
    if (length <= best) continue;
    best = length;
    begin = behind;
    if (best == longest) break;
  }
  return begin;
}

std::span<const int32_t> NgramDrafter::Propose(int32_t most, int32_t rows) {
  proposal_.clear();
  looks_due_ = std::max<int64_t>(0, looks_due_ - kLooksPerStep);
  if (looks_due_ > 0) return proposal_;
  if (is_lost_ || rows > kDraftRowsMax || size() == 0) return proposal_;
  most = std::min(most, options_.tokens);
  int32_t count = WorthTrying(most);
  if (count == 0 && left_out_ < kLeftOutMax) {
    ++left_out_;
    return proposal_;
  }
  const size_t begin = Match();
  if (begin == size()) return proposal_;
  count = std::max(count, std::min(most, 1));
  left_out_ = 0;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const size_t place = begin + i;
    // A text that repeats itself at once goes on with what was just proposed.
    proposal_.push_back(place < size() ? at(place) : proposal_[place - size()]);
  }
  return proposal_;
}

void NgramDrafter::Push(int32_t token) {
  if (is_lost_) return;
  try {
    answer_.push_back(token);
  } catch (const std::bad_alloc&) {
    is_lost_ = true;
  }
}

void NgramDrafter::Learn(int32_t computed, int32_t right) {
  for (int32_t i = 0; i < right; ++i) chance_ += kNewsShare * (1.0 - chance_);
  if (right < computed) chance_ -= kNewsShare * chance_;
  looks_due_ = std::max<int64_t>(0, looks_due_ - right * kLooksPerRight);
}

std::shared_ptr<Drafter> MakeNgramDrafter(const NgramOptions& options, TokenIds prompt) noexcept {
  if (options.tokens == 0) return nullptr;
  try {
    return std::make_shared<NgramDrafter>(options, std::move(prompt));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace hydrant
