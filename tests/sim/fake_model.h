// The simulator's model: what a token's score is, and which token follows, as pure functions. The next token depends on
// *everything* a sequence's live slots hold, in every (layer, KV head) pair: one wrong slot and the text is another.
#ifndef HYDRANT_TESTS_SIM_FAKE_MODEL_H_
#define HYDRANT_TESTS_SIM_FAKE_MODEL_H_

#include <array>
#include <cstddef>
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

// A number below `n` from the high bits of `hash`: a division costs more than all the rest of a draw.
inline int32_t Scale(uint64_t hash, int32_t n) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<int32_t>((static_cast<Wide>(hash) * static_cast<uint64_t>(n)) >> 64);
}

// A token's share of what attention reads; shares of a pair are summed, so their order does not matter.
inline uint64_t Share(int32_t position, int32_t token) {
  return Mix(static_cast<uint64_t>(position) * 0x9e3779b97f4a7c15u +
             static_cast<uint64_t>(token) * 0xd1b54a32d192ed03u + 1);
}

// The sums of shares, by pair.
using PairSums = std::array<uint64_t, kPairsMax>;

// What a row reads in all pairs. One pair's sum does not stand for another's.
inline uint64_t ReadAll(const PairSums& sums, int32_t pairs) {
  uint64_t all = 0;
  for (int32_t pair = 0; pair < pairs; ++pair) {
    all = (all + sums[static_cast<size_t>(pair)]) * 0xd6e8feb86659fd93u;
  }
  return all;
}

// The token sampled at `position` (the first generated one is at the prompt's length) by a row that read `all`.
inline int32_t NextToken(uint64_t request, int32_t position, uint64_t all, int32_t vocab) {
  return Scale(Mix(all + request * 0x2545f4914f6cdd1du + static_cast<uint64_t>(position)), vocab);
}

inline float FakeLogprob(uint64_t request, int32_t position) {
  return -static_cast<float>(Mix(request + static_cast<uint64_t>(position) * 77) % 1024) / 64.0f;
}

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_FAKE_MODEL_H_
