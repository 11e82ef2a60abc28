// The double-precision oracle of H2O: one KV head's whole history, written from the definition (kernels/eviction_policy.h)
// and from nothing else. It knows no slots, blocks, splits or chunks: a history is a list of tokens in the order of their
// positions, each with its key, value and score.
//
// Thread: any, one at a time per object.
//
// To compare an engine decision by decision (teacher forcing), impose the engine's choice with Evict or Keep after asking for
// VictimExcess or CutExcess: nothing cascades, and two correct fp32 programs may differ where the margin is below rounding.
#ifndef HYDRANT_KERNELS_REFERENCE_H2O_REFERENCE_H_
#define HYDRANT_KERNELS_REFERENCE_H2O_REFERENCE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/eviction_policy.h"
#include "kernels/reference/reference.h"

namespace hydrant::reference {

class H2oHistory {
 public:
  struct Token {
    int32_t position;
    double score;
    Values key;               // [head_dim], as the cache stores it: rotated, unless the policy is rolling
    Values value;             // [head_dim]
    double pointed_at = 0.0;  // the numerator of A of a policy with pin_rows
    bool seen = true;         // by the newest row
    bool pinned = false;
  };

  // `rope` is for rolling policies, whose queries and keys are given before rotation; no dims: nothing is rotated. `window`,
  // `softcap` and `sinks` [heads] (or empty) are those of the layer.
  H2oHistory(const EvictionPolicy& policy, int64_t heads, int64_t head_dim, double scale, const RopeSpec& rope = {},
             int32_t window = kNoWindow, double softcap = 0, Values sinks = {});

  // One prompt token: q [heads, head_dim]; k, v [head_dim]. It attends to everything so far and itself. Returns its output
  // [heads, head_dim]. Positions ascend.
  Values Prompt(ValuesView q, ValuesView k, ValuesView v, int32_t position, int32_t prompt_length);
  // One generated token: scores decay, then grow by its probabilities.
  Values Decode(ValuesView q, ValuesView k, ValuesView v, int32_t position);

  // Positions that a prompt of policy.pin_rows pins, ascending. `segment_starts` has the positions with which segments begin,
  // ascending.
  std::vector<int32_t> Pins(std::span<const int32_t> segment_starts, int32_t prompt_length) const;
  // As CutExcess, of A'.
  double PinExcess(std::span<const int32_t> pinned, std::span<const int32_t> segment_starts,
                   int32_t prompt_length) const;
  void Pin(std::span<const int32_t> positions);  // ascending

  // Positions the cut would keep, ascending. `logical_length` tokens were seen; a prompt's cut pools.
  std::vector<int32_t> CutSurvivors(int32_t logical_length, bool prompt_cut) const;
  // The position the next token would overwrite. REQUIRES a candidate: a token older than the newest `recent`.
  int32_t Victim(int32_t logical_length) const;

  // How far a choice is from the definition's: 0 when it is one the scores allow, otherwise the largest amount by which
  // a dropped score exceeds a kept one, relative to it; a step between 0 and kScoreMin is no excess. Infinite when a
  // recent token is dropped or the count is wrong, and where a pinned one makes room for another. Ties are not judged: compare with Victim and CutSurvivors.
  double VictimExcess(int32_t position, int32_t logical_length) const;
  double CutExcess(std::span<const int32_t> kept, int32_t logical_length, bool prompt_cut) const;

  void Evict(int32_t position);
  // Drops everything but `kept` (ascending). After a prompt's cut with store_pooled the scores are the pooled ones.
  void Keep(std::span<const int32_t> kept, int32_t logical_length, bool prompt_cut);

  const std::vector<Token>& tokens() const { return tokens_; }
  std::vector<Token>& mutable_tokens() { return tokens_; }  // tests plant scores
  std::vector<int32_t> Positions() const;                   // ascending

 private:
  Values Attend(ValuesView q, ValuesView k, ValuesView v, int32_t position, double decay, double row_weight,
                double pin_weight);
  // A' of all tokens; -1: no candidate.
  Values PinScores(std::span<const int32_t> segment_starts, int32_t prompt_length) const;
  // Scores as the cut sees them: pooled over the candidates at a prompt's cut.
  Values CutScores(int32_t logical_length, bool prompt_cut) const;
  // The place in tokens_ of the first that the newest one sees.
  int64_t FirstSeen() const;
  bool Recent(int32_t position, int32_t logical_length) const { return position >= logical_length - policy_.recent; }

  EvictionPolicy policy_;
  int64_t heads_;
  int64_t head_dim_;
  double scale_;
  RopeSpec rope_;
  int32_t window_;
  double softcap_;
  Values sinks_;
  std::vector<Token> tokens_;  // by position
  int32_t prompt_length_ = 0;  // of the turn
};

}  // namespace hydrant::reference

#endif  // HYDRANT_KERNELS_REFERENCE_H2O_REFERENCE_H_
