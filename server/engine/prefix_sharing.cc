#include "server/engine/prefix_sharing.h"

#include <algorithm>

namespace hydrant {
namespace {

// Turns the salt of those whose keys are cached rotated into that of those whose keys are not: what one caches means
// nothing to the other. Any number but 0 will do.
constexpr uint64_t kRollingSalt = 0x726f6c6c696e67;

}  // namespace

PrefixUse SharePrefixes(const EvictionPolicy& policy, const PrefixSalt& salt, bool whole_prompt) {
  PrefixUse use;
  use.publishes = true;
  use.looks_up = !whole_prompt;
  use.salt = salt;
  if (policy.rolling) use.salt.high ^= kRollingSalt;
  if (!policy.evicts) return use;
  use.scores = ScoreNeed::kZeros;
  if (!policy.scores()) return use;
  if (policy.score_rows > 0) {
    use.rows_computed_min = std::max(1, policy.score_rows);
  } else if (policy.prompt_decay() == 1.0f) {
    use.rows_computed_min = std::max(1, policy.pin_rows);
    use.scores = ScoreNeed::kSnapshot;
    use.score_kind = static_cast<ScoreKind>(static_cast<int>(policy.gqa_reduce) * 2 + (policy.square ? 1 : 0));
  } else {
    use.looks_up = false;
  }
  return use;
}

}  // namespace hydrant
