// EvictionPolicy says *which* tokens of a sequence stay in the cache. *How many* stay is the block manager's
// business (block_manager/kv_budget.h): counts never depend on data, contents do.
//
// Semantics: "Heavy-Hitter Oracle", arXiv 2306.14048, in the form that keeps one score S per (layer, KV head, slot).
// With t the position of the newest token and L = t + 1 the logical length:
//
//   prompt   S[j] = sum over scored rows i >= j of
//                   decay^(P-1-i) * reduce over the group's query heads g of p[g,i,j]^(square ? 2 : 1);
//            scored rows are the last min(score_rows, P) prompt rows (score_rows == 0: all of them). For the prompt's
//            cut only, S over the candidates [0, P - recent) is then max-pooled with width `pool_width`, and the pooled
//            value is also the stored score.
//   decode   S[j] = decay * S[j] + reduce over g of p[g,t,j]^(square ? 2 : 1) for every live slot; a new token starts
//            at 0 and receives its own probability in the same step.
//   victim   argmin over slots with pos < L - recent of (S ascending, pos descending): on a tie the lower position
//            survives.
//   cut      keep the `heavy` best slots with pos < L - recent by (S descending, pos ascending), and every slot with
//            pos >= L - recent.
//
// Presets are values of this struct; no preset has code of its own. `window` is heavy = 0; `sinks` is heavy = 4 with
// ScoreSource::kNone (all scores 0, so the tie rule keeps the lowest positions).
#ifndef HYDRANT_KERNELS_EVICTION_POLICY_H_
#define HYDRANT_KERNELS_EVICTION_POLICY_H_

#include <cstdint>

namespace hydrant {

// How the probabilities of a KV head's query heads become one number.
enum class GqaReduce : uint8_t { kSum, kMean, kFirst };

enum class ScoreSource : uint8_t { kAttention, kNone };

struct EvictionPolicy {
  bool evicts = false;  // false: dense cache; every other field is ignored and no score is kept
  int32_t heavy = 0;    // slots kept by score, >= 0
  int32_t recent = 1;   // newest slots that are never candidates, >= 1
  ScoreSource score_source = ScoreSource::kAttention;
  GqaReduce gqa_reduce = GqaReduce::kSum;
  bool square = false;     // accumulate p*p instead of p
  float decay = 1.0f;      // in (0, 1]
  int32_t score_rows = 0;  // prompt rows that are scored; 0 = all
  int32_t pool_width = 1;  // odd; 1 = no pooling

  // Slots kept by a cut; a decoding sequence with cadence `exact` owns one more.
  int32_t keep() const { return heavy + recent; }
  bool scores() const { return evicts && score_source == ScoreSource::kAttention; }
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_EVICTION_POLICY_H_
