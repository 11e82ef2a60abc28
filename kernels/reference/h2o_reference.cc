#include "kernels/reference/h2o_reference.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

namespace hydrant::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// By how much dropping `dropped` and keeping `kept` is wrong, relative to the score that was thrown away.
double RelativeExcess(double dropped, double kept) {
  // Rounding decides whether a score beside kScoreMin is flushed to 0.
  const double excess = dropped - kept - 2 * static_cast<double>(kScoreMin);
  return excess > 0.0 ? excess / dropped : 0.0;
}

// Above every score.
constexpr double kPinnedScore = 1e300;

double FlushToZero(double score) { return score < static_cast<double>(kScoreMin) ? 0.0 : score; }

}  // namespace

H2oHistory::H2oHistory(const EvictionPolicy& policy, int64_t heads, int64_t head_dim, double scale,
                       const RopeSpec& rope, int32_t window, double softcap, Values sinks)
    : policy_(policy),
      heads_(heads),
      head_dim_(head_dim),
      scale_(scale),
      rope_(rope),
      window_(window),
      softcap_(softcap),
      sinks_(std::move(sinks)) {}

int64_t H2oHistory::FirstSeen() const {
  const int64_t count = std::ssize(tokens_);
  if (policy_.rolling) return std::max(count - window_, int64_t{0});
  int64_t first = 0;
  while (tokens_.back().position - tokens_[first].position >= window_) ++first;
  return first;
}

Values H2oHistory::Attend(ValuesView q, ValuesView k, ValuesView v, int32_t position, double decay, double row_weight,
                          double pin_weight) {
  assert(tokens_.empty() || tokens_.back().position < position);
  tokens_.push_back({position, 0.0, Values(k.begin(), k.end()), Values(v.begin(), v.end())});
  const int64_t first = FirstSeen(), count = std::ssize(tokens_) - first;
  Values keys, values;
  for (int64_t rank = first; rank < std::ssize(tokens_); ++rank) {
    const Token& token = tokens_[rank];
    const Values key = policy_.rolling ? Rope(rope_, rank, token.key, 1, head_dim_) : token.key;
    keys.insert(keys.end(), key.begin(), key.end());
    values.insert(values.end(), token.value.begin(), token.value.end());
  }
  const Values query =
      policy_.rolling ? Rope(rope_, std::ssize(tokens_) - 1, q, heads_, head_dim_) : Values(q.begin(), q.end());
  AttentionResult result = Attention(query, heads_, keys, values, count, head_dim_, scale_, softcap_, sinks_);
  if (policy_.scores()) {
    for (int64_t j = 0; j < count; ++j) {
      double sum = 0.0, squares = 0.0;
      for (int64_t g = 0; g < heads_; ++g) {
        const double p = result.probabilities[g * count + j];
        squares += p * p;
      }
      tokens_[first + j].pointed_at += pin_weight * squares;
      for (int64_t g = 0; g < (policy_.gqa_reduce == GqaReduce::kFirst ? 1 : heads_); ++g) {
        const double p = result.probabilities[g * count + j];
        sum += policy_.square ? p * p : p;
      }
      if (policy_.gqa_reduce == GqaReduce::kMean) sum /= static_cast<double>(heads_);
      Token& token = tokens_[first + j];
      token.score = FlushToZero(decay * token.score + row_weight * sum);
    }
    if (row_weight > 0) {
      for (int64_t j = 0; j < first; ++j) {
        tokens_[j].score = 0.0;
        tokens_[j].seen = tokens_[j].pinned = false;
      }
    }
  }
  return std::move(result.out);
}

Values H2oHistory::Prompt(ValuesView q, ValuesView k, ValuesView v, int32_t position, int32_t prompt_length) {
  const bool scored = policy_.score_rows == 0 || position >= prompt_length - policy_.score_rows;
  const double weight =
      scored ? std::pow(static_cast<double>(policy_.prompt_decay()), prompt_length - 1 - position) : 0.0;
  const bool turns = prompt_length != prompt_length_;
  prompt_length_ = prompt_length;
  for (Token& token : tokens_) {
    token.pinned = false;
    if (turns) token.pointed_at = 0.0;
  }
  const bool points = position >= prompt_length - policy_.pin_rows;
  const double pin_weight =
      points ? std::pow(static_cast<double>(policy_.pin_decay), prompt_length - 1 - position) : 0.0;
  return Attend(q, k, v, position, 1.0, weight, pin_weight);
}

Values H2oHistory::Decode(ValuesView q, ValuesView k, ValuesView v, int32_t position) {
  for (Token& token : tokens_) token.pinned = token.pinned && position - prompt_length_ < policy_.pin_tokens;
  return Attend(q, k, v, position, static_cast<double>(policy_.decay), 1.0, 0.0);
}

Values H2oHistory::PinScores(std::span<const int32_t> segment_starts, int32_t prompt_length) const {
  Values scores(tokens_.size(), -1.0);
  // The number of the segment that a position is in.
  const auto segment_of = [&](int32_t position) {
    return std::upper_bound(segment_starts.begin(), segment_starts.end(), position) - segment_starts.begin();
  };
  const auto candidate = [&](const Token& token) { return token.seen && !Recent(token.position, prompt_length); };
  const auto pointed_at = [&](const Token& token) {
    const double usual =
        token.score / (prompt_length - token.position) + static_cast<double>(kUsualMin) / prompt_length;
    return FlushToZero(token.pointed_at) / usual;
  };
  const auto largest_of = [&](ptrdiff_t segment) {
    double largest = 0.0;
    for (const Token& token : tokens_) {
      if (candidate(token) && segment_of(token.position) == segment) {
        largest = std::max(largest, pointed_at(token));
      }
    }
    return largest;
  };
  for (size_t j = 0; j < tokens_.size(); ++j) {
    if (!candidate(tokens_[j])) continue;
    const ptrdiff_t segment = segment_of(tokens_[j].position);
    ptrdiff_t before = -1;
    for (const Token& token : tokens_) {
      if (candidate(token) && segment_of(token.position) < segment) before = segment_of(token.position);
    }
    scores[j] = largest_of(segment);
    if (before >= 0) scores[j] = std::max(scores[j], static_cast<double>(kBehind) * largest_of(before));
  }
  return scores;
}

std::vector<int32_t> H2oHistory::Pins(std::span<const int32_t> segment_starts, int32_t prompt_length) const {
  const Values scores = PinScores(segment_starts, prompt_length);
  std::vector<size_t> candidates;
  for (size_t j = 0; j < tokens_.size(); ++j) {
    if (scores[j] >= 0.0) candidates.push_back(j);
  }
  std::stable_sort(candidates.begin(), candidates.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  candidates.resize(std::min(candidates.size(), static_cast<size_t>(policy_.pins())));
  std::vector<int32_t> pins;
  for (size_t j : candidates) pins.push_back(tokens_[j].position);
  std::sort(pins.begin(), pins.end());
  return pins;
}

double H2oHistory::PinExcess(std::span<const int32_t> pinned, std::span<const int32_t> segment_starts,
                             int32_t prompt_length) const {
  const Values scores = PinScores(segment_starts, prompt_length);
  double best_left = 0.0, worst_pinned = kInfinity;
  size_t found = 0;
  for (size_t j = 0; j < tokens_.size(); ++j) {
    const bool pins = std::binary_search(pinned.begin(), pinned.end(), tokens_[j].position);
    found += pins ? 1 : 0;
    if (pins && scores[j] < 0.0) return kInfinity;
    if (pins) {
      worst_pinned = std::min(worst_pinned, scores[j]);
    } else {
      best_left = std::max(best_left, scores[j]);
    }
  }
  const size_t expected = Pins(segment_starts, prompt_length).size();
  return found == pinned.size() && found == expected ? RelativeExcess(best_left, worst_pinned) : kInfinity;
}

void H2oHistory::Pin(std::span<const int32_t> positions) {
  for (Token& token : tokens_) token.pinned = std::binary_search(positions.begin(), positions.end(), token.position);
}

Values H2oHistory::CutScores(int32_t logical_length, bool prompt_cut) const {
  Values scores(tokens_.size());
  int64_t candidates = 0;
  for (size_t j = 0; j < tokens_.size(); ++j) {
    scores[j] = tokens_[j].score;
    if (!Recent(tokens_[j].position, logical_length)) candidates = static_cast<int64_t>(j) + 1;
  }
  if (!prompt_cut || policy_.pool_width == 1) return scores;
  for (int64_t j = 0; j < candidates; ++j) {
    for (int64_t i = 0; i < candidates; ++i) {
      if (std::abs(i - j) <= policy_.pool_width / 2) scores[j] = std::max(scores[j], tokens_[i].score);
    }
  }
  return scores;
}

std::vector<int32_t> H2oHistory::CutSurvivors(int32_t logical_length, bool prompt_cut) const {
  const Values scores = CutScores(logical_length, prompt_cut);
  std::vector<size_t> candidates;  // in the order of positions, which a stable sort keeps on ties
  std::vector<int32_t> kept;
  for (size_t j = 0; j < tokens_.size(); ++j) {
    if (Recent(tokens_[j].position, logical_length)) {
      kept.push_back(tokens_[j].position);
    } else {
      candidates.push_back(j);
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(), [&](size_t a, size_t b) {
    return tokens_[a].pinned != tokens_[b].pinned ? tokens_[a].pinned : scores[a] > scores[b];
  });
  for (size_t i = 0; i < std::min(candidates.size(), static_cast<size_t>(policy_.heavy)); ++i) {
    kept.push_back(tokens_[candidates[i]].position);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

int32_t H2oHistory::Victim(int32_t logical_length) const {
  const Token* victim = nullptr;
  for (const Token& token : tokens_) {
    if (token.pinned || Recent(token.position, logical_length)) continue;
    // Ascending positions: an equal score later on is the higher position, which goes first.
    if (victim == nullptr || token.score <= victim->score) victim = &token;
  }
  assert(victim != nullptr);
  return victim->position;
}

double H2oHistory::VictimExcess(int32_t position, int32_t logical_length) const {
  if (Recent(position, logical_length)) return kInfinity;
  double lowest = kInfinity, chosen = kInfinity;
  for (const Token& token : tokens_) {
    if (token.pinned && token.position == position) return kInfinity;
    if (token.pinned || Recent(token.position, logical_length)) continue;
    lowest = std::min(lowest, token.score);
    if (token.position == position) chosen = token.score;
  }
  return chosen == kInfinity ? kInfinity : RelativeExcess(chosen, lowest);
}

double H2oHistory::CutExcess(std::span<const int32_t> kept, int32_t logical_length, bool prompt_cut) const {
  const Values scores = CutScores(logical_length, prompt_cut);
  double best_dropped = 0.0, worst_kept = kInfinity;
  size_t found = 0;
  for (size_t j = 0; j < tokens_.size(); ++j) {
    const bool survives = std::binary_search(kept.begin(), kept.end(), tokens_[j].position);
    found += survives ? 1 : 0;
    if (Recent(tokens_[j].position, logical_length)) {
      if (!survives) return kInfinity;
      continue;
    }
    const double score = tokens_[j].pinned ? kPinnedScore : scores[j];
    if (survives) {
      worst_kept = std::min(worst_kept, score);
    } else {
      best_dropped = std::max(best_dropped, score);
    }
  }
  const size_t expected = CutSurvivors(logical_length, prompt_cut).size();
  return found == kept.size() && found == expected ? RelativeExcess(best_dropped, worst_kept) : kInfinity;
}

void H2oHistory::Evict(int32_t position) {
  const size_t before = tokens_.size();
  std::erase_if(tokens_, [&](const Token& token) { return token.position == position; });
  assert(tokens_.size() + 1 == before);
}

void H2oHistory::Keep(std::span<const int32_t> kept, int32_t logical_length, bool prompt_cut) {
  const Values scores = CutScores(logical_length, prompt_cut);
  for (size_t j = 0; policy_.store_pooled && j < tokens_.size(); ++j) tokens_[j].score = scores[j];
  std::erase_if(tokens_,
                [&](const Token& token) { return !std::binary_search(kept.begin(), kept.end(), token.position); });
}

std::vector<int32_t> H2oHistory::Positions() const {
  std::vector<int32_t> positions;
  for (const Token& token : tokens_) positions.push_back(token.position);
  return positions;
}

}  // namespace hydrant::reference
