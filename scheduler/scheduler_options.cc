#include "scheduler/scheduler_options.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "block_manager/kv_budget.h"

namespace hydrant {

absl::Status SchedulerOptions::Validate() const {
  if (blocks < 1 || blocks > std::numeric_limits<int32_t>::max() / kBlockSlots) {
    return absl::InvalidArgumentError(absl::StrCat("the KV pool cannot have ", blocks, " blocks"));
  }
  if (spare_score_blocks < 0 || spare_score_blocks > std::numeric_limits<int32_t>::max() / kBlockSlots - blocks) {
    return absl::InvalidArgumentError(absl::StrCat("there cannot be ", spare_score_blocks, " spare score blocks"));
  }
  // The bound on both keeps indices and sums far from overflow.
  constexpr int32_t kSequencesLimit = 1 << 20;
  if (sequences_max < 1 || sequences_max > kSequencesLimit || waiting_max < 1 || waiting_max > kSequencesLimit) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequences in progress and waiting requests must be 1 to ", kSequencesLimit));
  }
  if (tokens_max < sequences_max + kBlockSlots - 1) {
    return absl::InvalidArgumentError(absl::StrCat("a step of ", tokens_max, " tokens has no room for ", sequences_max,
                                                   " sequences and a block of prefill: at least ",
                                                   sequences_max + kBlockSlots - 1, " are needed"));
  }
  if (swap_blocks_max < 0) {
    return absl::InvalidArgumentError(absl::StrCat("there cannot be swap space for ", swap_blocks_max, " blocks"));
  }
  if (swap_patience < 1) return absl::InvalidArgumentError("who waits for swaps must wait a plan at least");
  if (prefill_tokens_max < kBlockSlots) {
    return absl::InvalidArgumentError(absl::StrCat("prefill beside decodes needs at least ", kBlockSlots, " tokens"));
  }
  if (drafts_max < 0 || drafts_max > kSequencesLimit) {
    return absl::InvalidArgumentError(absl::StrCat("a step cannot have up to ", drafts_max, " drafts"));
  }
  return ValidateTenants(tenants, blocks, sequences_max);
}

}  // namespace hydrant
