// EvictionPolicy says *which* tokens of a sequence stay in the cache. *How many* stay is the block manager's
// business (block_manager/kv_budget.h): counts never depend on data, contents do.
//
// Semantics: "Heavy-Hitter Oracle", arXiv 2306.14048, in the form that keeps one score S per (layer, KV head, slot).
// With t the position of the newest token and L = t + 1 the logical length:
//
//   prompt   S[j] = sum over scored rows i >= j of
//                   decay^(P-1-i) * reduce over the group's query heads g of p[g,i,j]^(square ? 2 : 1),
//            without decay^(P-1-i) unless decays_prompt;
//            scored rows are the last min(score_rows, P) prompt rows (score_rows == 0: all of them). The prompt's cut,
//            and no other, goes by S'[j] = max of S over the candidates [0, P - recent) that are at most
//            pool_width / 2 away from j; recent tokens have no S'. With store_pooled the survivors' score becomes S'
//            and decoding goes on from it; without, S' decides the cut and is forgotten. A prompt that fits its budget
//            is not cut, hence not pooled.
//   pins     with pin_rows > 0 the prompt's cut goes by two scores. Beside S there is, of the newest pin_rows rows of the
//            turn,
//              A[j] = sum over i of pin_decay^(P-1-i) * sum over g of p[g,i,j]^2 / (S[j] / (P - j) + kUsualMin / P)
//            for every candidate j that the newest row sees: what they give it, measured by what the P - j rows that could
//            see it have given it on average. The text is divided into segments, from outside
//            (BatchRow::segment_starts). A segment's A is the largest of its candidates', and A' of each of these is it
//            or kBehind of that of the segment before, of those with candidates, whichever is more. Where the prompt is longer
//            than its budget, the pins() candidates of largest A' (ties: the lower position) are pinned: no cut drops
//            and no victim is a pinned slot while another one will do, and of pinned ones cuts go by S. A slot's pin ends
//            with the first row that does not see it, with the rows of the session's next turn, and with the decode row
//            before which pin_tokens were fed since the prompt. A pin is the sign of the slot's score.
//   decode   S[j] = decay * S[j] + reduce over g of p[g,t,j]^(square ? 2 : 1) for every live slot; a new token starts
//            at 0 and receives its own probability in the same step.
//   victim   argmin over slots with pos < L - recent of (S ascending, pos descending): on a tie the lower position
//            survives.
//   cut      keep the `heavy` best slots with pos < L - recent by (S descending, pos ascending), and every slot with
//            pos >= L - recent.
//   zero     a score below kScoreMin is 0 wherever it is stored, so that what decays long enough becomes a tie.
//   window   in a layer whose tokens see W positions, themselves included, p[g,i,j] is 0 where pos_i - pos_j >= W; and
//            a score is 0 from the first scored token on that does not see its slot. So victims and cuts take first what
//            nobody sees. No later token will, unless a cut under a rolling policy brings the slot's rank closer.
//   rolling  a key stands at its rank among the live tokens of its (layer, KV head), oldest first, instead of at the
//            position it had in the text; a query at the rank of its own token. Keys are cached without rotation and
//            rotated as they are read, so positions in the rotary table stay below the slots of a sequence however long
//            it grows. Scores, victims and cuts are the same: ranks order tokens as positions do, and the newest
//            `recent` tokens, which are always live, have the `recent` highest ranks.
//
// Presets are values of this struct; no preset has code of its own. `window` is heavy = 0; `sinks` is heavy = 4 with
// ScoreSource::kNone (all scores 0, so the tie rule keeps the lowest positions).
#ifndef HYDRANT_KERNELS_EVICTION_POLICY_H_
#define HYDRANT_KERNELS_EVICTION_POLICY_H_

#include <algorithm>
#include <cstdint>

namespace hydrant {

// How the probabilities of a KV head's query heads become one number.
enum class GqaReduce : uint8_t { kSum, kMean, kFirst };

enum class ScoreSource : uint8_t { kAttention, kNone };

// The smallest normal fp32 number: below it a decaying score would get stuck at a few of the smallest steps there are
// instead of reaching 0, and where it got stuck would depend on the device.
inline constexpr float kScoreMin = 0x1p-126f;

// Over P, the least by which what a token is given is measured. A score of an earlier turn may have decayed to nothing, and then the
// token counts 4 P times what it is given.
inline constexpr float kUsualMin = 0.25f;

// A of a token at `position` of a prompt of `length` tokens, with these sums of the rows that choose pins and of all rows; of a NaN
// with any sign.
constexpr float PinScore(float sum, float score, int32_t position, int32_t length) {
  if (sum < kScoreMin) return 0.0f;
  const float usual = score / static_cast<float>(length - position);
  return sum / (usual + kUsualMin / static_cast<float>(length));
}

// How much a segment counts, at least, of the one before it: what is said of a name may stand in the sentence behind it.
inline constexpr float kBehind = 0.75f;

// Slots that go by score whatever is pinned, of twice as many: room for the first tokens of a text, which every head leans on, and
// without which answers break off.
inline constexpr int32_t kUnpinned = 4;

struct EvictionPolicy {
  bool evicts = false;  // false: dense cache; every other field is ignored and no score is kept
  int32_t heavy = 0;    // slots kept by score, >= 0
  int32_t recent = 1;   // newest slots that are never candidates, >= 1
  ScoreSource score_source = ScoreSource::kAttention;
  GqaReduce gqa_reduce = GqaReduce::kSum;
  bool square = false;        // accumulate p*p instead of p
  float decay = 1.0f;         // in (0, 1]
  bool decays_prompt = true;  // false: a prompt's rows count alike, and the scores before them as much as they did
  int32_t score_rows = 0;     // prompt rows that are scored; 0 = all
  int32_t pool_width = 1;     // odd; 1 = no pooling
  bool store_pooled = true;   // the prompt's cut leaves the pooled scores behind; false: the plain ones
  bool rolling = false;       // keys stand at their ranks
  int32_t pin_rows = 0;       // newest prompt rows whose attention chooses pins; 0 = nothing is pinned
  float pin_decay = 1.0f;     // in (0, 1]
  int32_t pin_tokens = 0;     // generated tokens until pins end
  int32_t pins_min = 0;  // pins() is not less than this if there are as many heavy slots and kUnpinned more; see there

  // Slots kept by a cut; a decoding sequence with cadence `exact` owns one more.
  int32_t keep() const { return heavy + recent; }
  constexpr bool scores() const { return evicts && score_source == ScoreSource::kAttention; }
  // Slots that are pinned at a prompt's cut: half of those that go by score; of few of them two thirds, or even all but kUnpinned,
  // because a sentence that is to be remembered is as long as ever.
  constexpr int32_t pins() const {
    if (pin_rows == 0) return 0;
    const int64_t of_few = std::max(int64_t{pins_min}, int64_t{heavy} * 2 / 3);
    const int64_t most = std::min(int64_t{heavy} - kUnpinned, 2 * int64_t{pins_min});
    return static_cast<int32_t>(std::max(int64_t{heavy} / 2, std::min(of_few, most)));
  }
  constexpr float prompt_decay() const { return decays_prompt ? decay : 1.0f; }

  // This policy with `slots` slots. The recent part keeps its share, rounded down, and at least one slot; where nothing
  // is scored the heavy part is the first tokens of the text, which no share explains, so it stays. Always ask the
  // policy the request began with: what several steps down come to then does not depend on the steps. REQUIRES: 1 <=
  // slots <= keep().
  EvictionPolicy Lowered(int32_t slots) const {
    EvictionPolicy lowered = *this;
    lowered.recent = scores() ? static_cast<int32_t>(int64_t{recent} * slots / keep()) : slots - heavy;
    lowered.recent = std::max(1, lowered.recent);
    lowered.heavy = slots - lowered.recent;
    return lowered;
  }
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_EVICTION_POLICY_H_
