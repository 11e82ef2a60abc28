// The simulator's model: what a token's score is, and which token follows, as pure functions. The next token depends on
// *everything* a sequence's live slots hold, in every (layer, KV head) pair: one wrong slot and the text is another.
#ifndef HYDRANT_TESTS_SIM_FAKE_MODEL_H_
#define HYDRANT_TESTS_SIM_FAKE_MODEL_H_

#include <cstdint>

namespace hydrant::sim {

// (layer, KV head) pairs a simulated cache has at most. Three differ from each other in every way two can, and odd ones out.
inline constexpr int32_t kPairsMax = 3;

// The finaliser of SplitMix64.
inline uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Scores of a request's tokens in one pair. `levels_log2` small makes ties common.
struct FakeScores {
  uint64_t key = 0;
  int32_t levels_log2 = 64;

  FakeScores() = default;
  FakeScores(uint64_t request, int32_t pair, int32_t levels) : key(Mix(request * 3 + static_cast<uint64_t>(pair))) {
    levels_log2 = levels;
  }
  uint64_t of(int32_t position) const {
    return Mix(key + static_cast<uint64_t>(position) * 0x9e3779b97f4a7c15u) >> (64 - levels_log2);
  }
};

// A token's share of what attention reads in one pair; shares are summed, so their order does not matter.
inline uint64_t Share(int32_t pair, int32_t position, int32_t token) {
  return Mix(static_cast<uint64_t>(position) * 0x9e3779b97f4a7c15u +
             static_cast<uint64_t>(token) * 0xd1b54a32d192ed03u + static_cast<uint64_t>(pair));
}

// The token sampled at `position` (the first generated one is at the prompt's length) after reading `shares`.
inline int32_t NextToken(uint64_t request, int32_t position, uint64_t shares, int32_t vocab) {
  const uint64_t hash = Mix(shares + request * 0x2545f4914f6cdd1du + static_cast<uint64_t>(position));
  return static_cast<int32_t>(hash % static_cast<uint64_t>(vocab));
}

inline float FakeLogprob(uint64_t request, int32_t position) {
  return -static_cast<float>(Mix(request + static_cast<uint64_t>(position) * 77) % 1024) / 64.0f;
}

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_FAKE_MODEL_H_
