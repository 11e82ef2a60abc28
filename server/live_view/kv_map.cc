#include "server/live_view/kv_map.h"

#include <algorithm>
#include <cassert>
#include <span>
#include <utility>

#include "server/kv/kv_resolution.h"

namespace hydrant {
namespace {

// Walks over the slots of a reading: [block][pair][16].
class Slots {
 public:
  Slots(const KvReading& reading, int32_t layer_heads)
      : score_blocks_(reading.score_blocks), live_(reading.live), layer_heads_(layer_heads) {
    assert(score_blocks_.blocks * kBlockSlots >= live_);
  }

  template <typename Visit>  // (layer_head, position, score)
  void ForEach(const Visit& visit) const {
    for (int32_t block = 0; block * kBlockSlots < live_; ++block) {
      for (int32_t layer_head = 0; layer_head < layer_heads_; ++layer_head) ForBlock(block, layer_head, visit);
    }
  }

  template <typename Visit>
  void ForPair(int32_t layer_head, const Visit& visit) const {
    for (int32_t block = 0; block * kBlockSlots < live_; ++block) ForBlock(block, layer_head, visit);
  }

 private:
  template <typename Visit>
  void ForBlock(int32_t block, int32_t layer_head, const Visit& visit) const {
    const size_t begin =
        (static_cast<size_t>(block) * static_cast<size_t>(layer_heads_) + static_cast<size_t>(layer_head)) *
        kBlockSlots;
    const auto count = static_cast<size_t>(std::min(kBlockSlots, live_ - block * kBlockSlots));
    for (size_t slot = begin; slot < begin + count; ++slot)
      visit(layer_head, score_blocks_.positions[slot], score_blocks_.scores[slot]);
  }

  const KvScores& score_blocks_;
  const int32_t live_;
  const int32_t layer_heads_;
};

// The window of tokens that is asked about.
struct Window {
  int32_t begin = 0;
  int32_t end = 0;
  bool Has(int32_t position) const { return begin <= position && position < end; }
};

Window WindowOf(const SessionKvQuery& query, int32_t known) {
  Window window;
  window.begin = std::min(known, query.after.value_or(std::max(0, known - query.limit)));
  window.end = std::min(known, window.begin + query.limit);
  return window;
}

// What a score is worth: its share of the pair's, in units of an equal one.
std::vector<float> Units(const Slots& slots, int32_t layer_heads, int32_t live) {
  std::vector<double> sums(static_cast<size_t>(layer_heads));
  slots.ForEach([&](int32_t layer_head, int32_t, float score) { sums[static_cast<size_t>(layer_head)] += score; });
  std::vector<float> units;
  for (const double sum : sums) units.push_back(sum > 0 ? static_cast<float>(live / sum) : 0.0f);
  return units;
}

void Count(const Slots& slots, const Window& window, const KvShape& shape, bool scored, SessionKv* kv) {
  const auto width = static_cast<size_t>(window.end - window.begin);
  kv->held.assign(width, 0);
  kv->reach.assign(static_cast<size_t>(shape.layer_heads()), 0.0f);
  std::vector<float> units(static_cast<size_t>(shape.layer_heads()), 0.0f);
  if (scored) {
    units = Units(slots, shape.layer_heads(), kv->live);
    kv->scores.assign(width, 0.0f);
  }
  const float age_unit = 1.0f / (static_cast<float>(kv->live) * static_cast<float>(kv->logical));
  slots.ForEach([&](int32_t layer_head, int32_t position, float score) {
    kv->reach[static_cast<size_t>(layer_head)] += static_cast<float>(kv->logical - 1 - position) * age_unit;
    if (!window.Has(position)) return;
    const auto at = static_cast<size_t>(position - window.begin);
    ++kv->held[at];
    if (scored) kv->scores[at] += score * units[static_cast<size_t>(layer_head)];
  });
  for (size_t i = 0; i < kv->scores.size(); ++i) {
    if (kv->held[i] > 0) kv->scores[i] /= static_cast<float>(kv->held[i]);
  }
}

SessionKv::Pair PairOf(const Slots& slots, const Window& window, const KvShape& shape, const SessionKvQuery& query,
                       bool scored) {
  SessionKv::Pair pair{.layer = *query.layer, .head = *query.head, .positions = {}, .scores = {}};
  std::vector<std::pair<int32_t, float>> found;
  slots.ForPair(pair.layer * shape.kv_heads + pair.head, [&](int32_t, int32_t position, float score) {
    if (window.Has(position)) found.emplace_back(position, score);
  });
  std::sort(found.begin(), found.end());
  for (const auto& [position, score] : found) {
    pair.positions.push_back(position);
    if (scored) pair.scores.push_back(score);
  }
  return pair;
}

SessionKv::Token TokenOf(const Slots& slots, const KvShape& shape, int32_t wanted, int32_t live, bool scored) {
  SessionKv::Token token{.position = wanted, .scores = {}};
  token.scores.assign(static_cast<size_t>(shape.layer_heads()), -1.0f);
  const std::vector<float> units = Units(slots, shape.layer_heads(), live);
  slots.ForEach([&](int32_t layer_head, int32_t position, float score) {
    if (position != wanted) return;
    token.scores[static_cast<size_t>(layer_head)] = scored ? score * units[static_cast<size_t>(layer_head)] : 0.0f;
  });
  return token;
}

// A cache that drops nothing holds every computed token in every pair.
void HoldEverything(const Window& window, const KvShape& shape, const SessionKvQuery& query, SessionKv* kv) {
  for (int32_t i = window.begin; i < window.end; ++i) kv->held.push_back(i < kv->logical ? shape.layer_heads() : 0);
  const float mean_age = static_cast<float>(kv->logical - 1) / 2;
  const float reach = kv->logical == 0 ? 0.0f : mean_age / static_cast<float>(kv->logical);
  kv->reach.assign(static_cast<size_t>(shape.layer_heads()), reach);
  if (query.layer.has_value()) {
    kv->pair = {.layer = *query.layer, .head = *query.head, .positions = {}, .scores = {}};
    for (int32_t i = window.begin; i < std::min(window.end, kv->logical); ++i) kv->pair->positions.push_back(i);
  }
  if (query.token.has_value()) {
    const float held = *query.token < kv->logical ? 0.0f : -1.0f;
    kv->token = {*query.token, std::vector<float>(static_cast<size_t>(shape.layer_heads()), held)};
  }
}

void ShowTokens(std::span<const int32_t> tokens, const Window& window, const Tokenizer& tokenizer, SessionKv* kv) {
  kv->known = static_cast<int32_t>(tokens.size());
  kv->after = window.begin;
  for (int32_t i = window.begin; i < window.end; ++i) {
    const int32_t id = tokens[static_cast<size_t>(i)];
    kv->tokens.push_back(id);
    kv->pieces.push_back(i == 0 ? tokenizer.FirstTokenBytes(id) : tokenizer.TokenBytes(id));
    if (tokenizer.IsSpecial(id)) kv->specials.push_back(i);
  }
}

}  // namespace

bool KvReadingFits(const KvReading& reading, const SessionStore::View& view) {
  const SessionPast* past = view.past.get();
  switch (reading.source) {
    case KvReading::Source::kRunning:
      return view.card.state == SessionState::kBusy && (past == nullptr || past->turn < reading.turn);
    case KvReading::Source::kParked:
      return past != nullptr && past->turn == reading.turn;
    case KvReading::Source::kNone:
      return view.card.state != SessionState::kParked;
  }
  return false;
}

SessionKv MakeSessionKv(const std::string& id, const SessionStore::View& view, const KvReading& reading,
                        const KvShape& shape, const Tokenizer& tokenizer, const SessionKvQuery& query) {
  SessionKv kv;
  kv.id = id;
  kv.state = view.card.state;
  kv.layers = shape.layers;
  kv.kv_heads = shape.kv_heads;
  const bool fits = KvReadingFits(reading, view);
  const bool running = fits && reading.source == KvReading::Source::kRunning;
  const bool parked = fits && reading.source == KvReading::Source::kParked;
  if (kv.state == SessionState::kBusy && !running) kv.ahead = reading.ahead;
  EvictionPolicy policy;
  std::span<const int32_t> tokens;
  if (running) {
    policy = reading.policy;
    kv.policy = KvPolicyLabels()[static_cast<size_t>(reading.policy_label)];
    kv.budget = reading.budget.keep;
    tokens = reading.tokens;
  } else if (view.past != nullptr) {
    policy = view.past->kv.policy;
    kv.policy = KvPresetName(view.past->spec.preset);
    kv.budget = view.past->kv.budget.keep;
    tokens = view.past->tokens;
  }
  if (policy.evicts) {
    kv.heavy = policy.heavy;
    kv.recent = policy.recent;
  }
  const Window window = WindowOf(query, static_cast<int32_t>(tokens.size()));
  ShowTokens(tokens, window, tokenizer, &kv);
  if (!running && !parked) {
    kv.unknown = view.past == nullptr && kv.state == SessionState::kBusy ? KvUnknown::kQueued : KvUnknown::kCold;
    return kv;
  }
  kv.logical = reading.computed;
  kv.live = reading.live;
  kv.aside = running && reading.aside;
  kv.blocks = running ? reading.blocks : static_cast<int32_t>(BlocksForSlots(reading.live));
  if (!policy.evicts) {
    HoldEverything(window, shape, query, &kv);
  } else if (kv.aside && !reading.score_blocks_read) {
    kv.unknown = KvUnknown::kAside;
  } else if (policy.rolling && reading.score_blocks_read && !reading.score_blocks.logical) {
    kv.unknown = KvUnknown::kRolling;
  } else if (reading.live > 0 && !reading.score_blocks_read) {
    kv.unknown = KvUnknown::kTooMany;
  } else {
    const Slots slots(reading, shape.layer_heads());
    Count(slots, window, shape, policy.scores(), &kv);
    if (query.layer.has_value()) kv.pair = PairOf(slots, window, shape, query, policy.scores());
    if (query.token.has_value()) kv.token = TokenOf(slots, shape, *query.token, reading.live, policy.scores());
  }
  return kv;
}

}  // namespace hydrant
