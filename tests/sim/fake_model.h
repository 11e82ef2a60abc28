// The simulator's model: what a token's score is, and which token follows, as pure functions. The next token depends on
// *everything* a sequence's live slots hold, in every (layer, KV head) pair: one wrong slot and the text is another.
#ifndef HYDRANT_TESTS_SIM_FAKE_MODEL_H_
#define HYDRANT_TESTS_SIM_FAKE_MODEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hydrant::sim {

// (layer, KV head) pairs a simulated cache has at most. Three differ from each other in every way two can, and odd ones out.
inline constexpr int32_t kPairsMax = 3;

// The finaliser of SplitMix64.
inline uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The ranks of a request's tokens, in each pair: the lowest goes first. A rank is a token's score and, of equal scores, says
// that the later token goes first; so no two are equal.
class FakeRanks {
 public:
  static constexpr int32_t kScoreBits = 44;  // of which an episode may use fewer, so that scores are often equal
  static constexpr int32_t kPositionMax = (1 << (64 - kScoreBits)) - 1;

  FakeRanks() = default;
  FakeRanks(uint64_t request, int32_t score_bits) : request_(request), score_bits_(score_bits) {}

  // The ranks of at least the tokens before `end`, in one pair.
  const std::vector<uint64_t>& Before(int32_t layer_head, int32_t end) {
    std::vector<uint64_t>& ranks = ranks_[static_cast<size_t>(layer_head)];
    const size_t known = ranks.size();
    if (known >= static_cast<size_t>(end)) return ranks;
    ranks.resize(static_cast<size_t>(end));
    const uint64_t key = Mix(request_ * 3 + static_cast<uint64_t>(layer_head));
    for (size_t i = known; i < ranks.size(); ++i) {
      const uint64_t score = Mix(key + i * 0x9e3779b97f4a7c15u) >> (64 - score_bits_);
      ranks[i] = score << (64 - kScoreBits) | static_cast<uint64_t>(kPositionMax - static_cast<int32_t>(i));
    }
    return ranks;
  }
  static int32_t PositionOf(uint64_t rank) {
    return kPositionMax - static_cast<int32_t>(rank & static_cast<uint64_t>(kPositionMax));
  }

 private:
  uint64_t request_ = 0;
  int32_t score_bits_ = kScoreBits;
  std::array<std::vector<uint64_t>, kPairsMax> ranks_;
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
inline uint64_t ReadAll(const PairSums& sums, int32_t layer_heads) {
  uint64_t all = 0;
  for (int32_t layer_head = 0; layer_head < layer_heads; ++layer_head) {
    all = (all + sums[static_cast<size_t>(layer_head)]) * 0xd6e8feb86659fd93u;
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
