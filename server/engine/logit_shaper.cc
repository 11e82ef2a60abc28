#include "server/engine/logit_shaper.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace hydrant {

bool LogitRules::counts() const {
  return options.repetition_penalty != 1.0f || options.frequency_penalty != 0.0f || options.presence_penalty != 0.0f;
}

bool LogitRules::neutral() const {
  return options.allowed_token_ids.empty() && options.logit_bias.empty() && bad_words.empty() &&
         (stop_ids.empty() || min_tokens == 0) && !counts();
}

bool LogitRules::IdsBelow(int32_t vocab) const {
  const auto below = [vocab](int32_t id) { return id >= 0 && id < vocab; };
  const std::vector<int32_t>& allowed = options.allowed_token_ids;
  const std::vector<TokenBias>& biases = options.logit_bias;
  return std::all_of(allowed.begin(), allowed.end(), below) && std::all_of(stop_ids.begin(), stop_ids.end(), below) &&
         std::all_of(biases.begin(), biases.end(), [&](const TokenBias& bias) { return below(bias.id); }) &&
         std::all_of(bad_words.begin(), bad_words.end(),
                     [&](const std::vector<int32_t>& word) { return std::all_of(word.begin(), word.end(), below); });
}

LogitShaper::LogitShaper(std::shared_ptr<const LogitRules> rules, std::span<const int32_t> prompt)
    : rules_(std::move(rules)) {
  for (const std::vector<int32_t>& word : rules_->bad_words) {
    assert(!word.empty());
    recent_max_ = std::max(recent_max_, word.size() - 1);
  }
  if (rules_->options.repetition_penalty != 1.0f) {
    for (const int32_t token : prompt) Count(token, 0);
  }
}

void LogitShaper::Count(int32_t token, int32_t times) {
  const auto [found, added] = place_.try_emplace(token, counts_.size());
  if (added) counts_.push_back({token, 0});
  counts_[found->second].count += times;
}

void LogitShaper::Push(int32_t token) {
  ++generated_;
  if (rules_->counts()) Count(token, 1);
  if (recent_max_ == 0) return;
  if (recent_.size() == recent_max_) recent_.erase(recent_.begin());
  recent_.push_back(token);
}

void LogitShaper::CollectBanned(int32_t generated) {
  banned_.clear();
  if (generated < rules_->min_tokens) banned_ = rules_->stop_ids;
  for (const std::vector<int32_t>& word : rules_->bad_words) {
    const size_t before = word.size() - 1;
    if (before <= recent_.size() &&
        std::equal(word.begin(), word.end() - 1, recent_.end() - static_cast<int64_t>(before))) {
      banned_.push_back(word.back());
    }
  }
}

const LogitAdjustments* LogitShaper::Next(bool ahead) {
  assert(!ahead || only_counts());
  CollectBanned(generated_ + (ahead ? 1 : 0));
  const LogitOptions& options = rules_->options;
  const bool counts_last = ahead && rules_->counts();
  adjustments_ = {options.allowed_token_ids,  banned_,
                  options.logit_bias,         counts_,
                  options.repetition_penalty, options.frequency_penalty,
                  options.presence_penalty,   counts_last};
  const bool nothing = options.allowed_token_ids.empty() && banned_.empty() && options.logit_bias.empty() &&
                       counts_.empty() && !counts_last;
  return nothing ? nullptr : &adjustments_;
}

}  // namespace hydrant
