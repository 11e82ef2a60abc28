// KvSpec is what a client (or the server's default) asked about KV eviction: a preset's name, a budget, a cadence.
// Plain data; the server turns it into the block manager's and the kernels' types. ResolveKvSlots does the arithmetic that
// needs the prompt's length.
//
// Thread: any (plain data, pure functions).
#ifndef HYDRANT_API_KV_KV_SPEC_H_
#define HYDRANT_API_KV_KV_SPEC_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "api/wire/api_error.h"

namespace hydrant {

enum class KvPreset : uint8_t {
  kFull,
  kH2o,
  kH2oReal,
  kH2oLlama3,
  kWindow,
  kSinks,
  kSnapKv,
  kH2oPlus,
  kH2oDecay,
  kH2oStreaming,
  kAuto
};
inline constexpr KvPreset kKvPresetLast = KvPreset::kAuto;

// "full", "h2o", …
std::string_view KvPresetName(KvPreset preset);
std::optional<KvPreset> KvPresetFromName(std::string_view name);
// All names, separated by ", ": for messages and --help.
std::string_view KvPresetNames();

// Where a key stands: at its position in the text, or at its rank among the tokens that are left.
enum class KvPosition : uint8_t { kAbsolute, kRolling };

enum class KvBudgetKind : uint8_t { kUnset, kTokens, kRatioOfPrompt, kRatioOfTotal };

struct KvSpec {
  KvPreset preset = KvPreset::kFull;
  KvBudgetKind budget_kind = KvBudgetKind::kUnset;  // kUnset only with kFull and kH2oStreaming
  int32_t budget_tokens = 0;                        // kTokens: >= 1
  double budget_ratio = 0.0;                        // kRatioOf*: in (0, 1]
  std::optional<int32_t> recent;                    // >= 1; absent: the preset's own share
  int32_t periodic_beta = 0;                        // 0: cadence exact; > 0: grow to budget + beta, then cut
  bool elastic = false;                             // without a floor: the budget may be lowered to its half
  std::optional<int32_t> floor;                     // it may be lowered to this; in [smallest, budget]
  bool budgeted_prefill = false;                    // evict on the way through the prompt, not only at its end
  std::optional<KvPosition> position;               // absent: rolling with kH2oStreaming, else absolute
  bool recall = false;  // where it evicts, a session's turn goes by all that was said, not by what was kept

  bool evicts() const { return preset != KvPreset::kFull; }
  bool recalls() const { return recall && evicts(); }
  bool rolls() const {
    const KvPosition usual = preset == KvPreset::kH2oStreaming ? KvPosition::kRolling : KvPosition::kAbsolute;
    return position.value_or(usual) == KvPosition::kRolling;
  }
  bool operator==(const KvSpec&) const = default;
};

// Slots in numbers, for one sequence. `heavy + recent == budget`.
struct KvSlots {
  int32_t budget = 0;  // 0: dense, no eviction
  int32_t heavy = 0;
  int32_t recent = 0;
  int32_t periodic_beta = 0;
  int32_t floor = 0;  // == budget: it is a guarantee
};

// The start-of-text slots that `sinks` keeps for ever (StreamingLLM's number).
inline constexpr int32_t kSinkSlots = 4;

// What `h2o-streaming` keeps where nobody says otherwise: the numbers of the H2O authors' streaming program.
inline constexpr int32_t kStreamingHeavy = 48;
inline constexpr int32_t kStreamingRecent = 2000;

// Whether a prompt may be cut on the way. Not where only its last rows are scored, or choose what stays of it beside its
// scores: at a cut inside the prompt they are still to come. Nor where rows count less the longer ago they were: factors
// are of the prompt's end, and far from it they are 0.
bool CanPrefillBudgeted(KvPreset preset);

// Whether positions may roll. Not where nothing is evicted, nor where sentences count: those are of the text, and a rolling
// cache does not know which token of it a slot has.
bool CanRoll(KvPreset preset);

// Checks what can be checked without a prompt: a budget is there when the preset needs one and inside
// [smallest, budget_max]; `recent` fits a budget in tokens; `full` comes alone; prefill budgeted and positions roll where
// they can; recall where nothing is evicted inside a prompt and positions are absolute. Errors name the member.
std::optional<ApiError> CheckKvSpec(const KvSpec& spec, int32_t budget_max);

// budget = budget_tokens | int(ratio * prompt_tokens) | int(ratio * (prompt_tokens + max_tokens)), raised to the
// preset's smallest (1; sinks: 5) and lowered to budget_max; h2o-streaming without one: kStreamingHeavy and `recent`, else
// kStreamingRecent, lowered so that a slot of budget_max is left. recent: as given, else budget / 2, with h2o-plus and
// auto budget / 3, with h2o-streaming budget - kStreamingHeavy (at least 1); window: budget; sinks: budget - 4. floor: as
// given, else, where elastic, budget / 2, at least the preset's smallest; else budget. 400 naming kv.recent or kv.floor
// when the one given is above the budget that a ratio came to.
// REQUIRES: CheckKvSpec(spec, budget_max) found nothing.
ApiResult<KvSlots> ResolveKvSlots(const KvSpec& spec, int32_t prompt_tokens, int32_t max_tokens, int32_t budget_max);

}  // namespace hydrant

#endif  // HYDRANT_API_KV_KV_SPEC_H_
