#include "kernels/cpu/linear/expert_groups.h"

#include <cassert>
#include <cmath>
#include <limits>

namespace hydrant {
namespace {

// NaNs have no order of their own.
float Rank(float logit) { return std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit; }

// Whether expert a comes before expert b.
bool Before(std::span<const float> logits, size_t a, size_t b) {
  const float of_a = Rank(logits[a]), of_b = Rank(logits[b]);
  return of_a > of_b || (of_a == of_b && a < b);
}

}  // namespace

void ChooseExperts(std::span<const float> logits, bool normalised, std::span<ChosenExpert> chosen) {
  assert(!chosen.empty() && chosen.size() <= logits.size());
  size_t last = 0;
  for (size_t i = 0; i < chosen.size(); ++i) {
    // The first of those that come after the last one.
    size_t next = logits.size();
    for (size_t expert = 0; expert < logits.size(); ++expert) {
      if (i > 0 && !Before(logits, last, expert)) continue;
      if (next == logits.size() || Before(logits, expert, next)) next = expert;
    }
    chosen[i].expert = static_cast<int32_t>(next);
    last = next;
  }
  const float largest = logits[static_cast<size_t>(chosen.front().expert)];
  float all = 0, of_chosen = 0;
  for (const float logit : logits) all += std::exp(logit - largest);
  for (ChosenExpert& choice : chosen) {
    choice.weight = std::exp(logits[static_cast<size_t>(choice.expert)] - largest) / all;
    of_chosen += choice.weight;
  }
  if (!normalised) return;
  for (ChosenExpert& choice : chosen) choice.weight /= of_chosen;
}

void ExpertGroups::Reserve(int64_t rows_max, int64_t per_row, int64_t experts) {
  const auto entries = static_cast<size_t>(rows_max * per_row);
  next_.reserve(static_cast<size_t>(experts));
  groups_.reserve(static_cast<size_t>(experts));
  rows_.reserve(entries);
  weights_.reserve(entries);
}

size_t ExpertGroups::Bytes(int64_t rows_max, int64_t per_row, int64_t experts) {
  return static_cast<size_t>(experts) * (sizeof(int64_t) + sizeof(Group)) +
         static_cast<size_t>(rows_max * per_row) * (sizeof(int32_t) + sizeof(float));
}

void ExpertGroups::Sort(std::span<const ChosenExpert> chosen, int64_t per_row, int64_t experts) {
  assert(chosen.size() <= rows_.capacity() && static_cast<size_t>(experts) <= next_.capacity());
  next_.assign(static_cast<size_t>(experts), 0);
  for (const ChosenExpert& choice : chosen) ++next_[static_cast<size_t>(choice.expert)];
  groups_.clear();
  int64_t first = 0;
  for (int32_t expert = 0; expert < experts; ++expert) {
    int64_t& next = next_[static_cast<size_t>(expert)];
    const int64_t rows = next;
    next = first;
    if (rows > 0) groups_.push_back({.expert = expert, .first = first, .rows = rows});
    first += rows;
  }
  rows_.resize(chosen.size());
  weights_.resize(chosen.size());
  for (size_t i = 0; i < chosen.size(); ++i) {
    const auto entry = static_cast<size_t>(next_[static_cast<size_t>(chosen[i].expert)]++);
    rows_[entry] = static_cast<int32_t>(static_cast<int64_t>(i) / per_row);
    weights_[entry] = chosen[i].weight;
  }
}

}  // namespace hydrant
