// ResolveKvPolicy turns what a request (or the server's default) says about its KV cache into the two structs that
// carry it out: how many slots (KvBudget) and which tokens (EvictionPolicy). They are made in one place because they
// describe one wish.
//
// Thread: any (pure).
#ifndef HYDRANT_SERVER_KV_KV_RESOLUTION_H_
#define HYDRANT_SERVER_KV_KV_RESOLUTION_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "api/kv/kv_spec.h"
#include "api/wire/api_error.h"
#include "block_manager/kv_budget.h"
#include "kernels/eviction_policy.h"

namespace hydrant {

struct KvResolution {
  KvBudget budget;
  EvictionPolicy policy;
  int32_t policy_label = 0;  // DecodeOptions::policy_label, an index into KvPolicyLabels()
};

// The facts of the model on which presets depend.
struct KvModelFacts {
  int32_t query_heads = 1;
  int32_t kv_heads = 1;
  int32_t budget_max = 0;  // the context
  bool rotary = true;      // else positions are learned and part of what is cached: they cannot roll
  bool pins = true;        // the device chooses pins
  // Prompt tokens that a step has room for whatever else is in it.
  int32_t step_tokens = std::numeric_limits<int32_t>::max();
};

// Presets: h2o, h2o-real: sum over the group's query heads; h2o-llama3: the first query head only, and a session
// makes room before each turn;
// window: no heavy slots; sinks: the first kSinkSlots positions for ever, no scores; snapkv: the mean over the group of
// the last 32 prompt rows, pooled over 7 for the prompt's cut; h2o-plus: squares of the last 64 rows with decay 15/16,
// pooled over 15 for good; h2o-decay: h2o with decay 1 - 1/128; h2o-streaming: h2o with rolling positions; auto: h2o with
// pins; full: no eviction.
// Errors: those of api's ResolveKvSlots; 400 for h2o-real on a model with grouped queries, or without its own `recent`,
// and for rolling positions where they are not rotary; for auto on a device that chooses no pins, and where steps are too
// short for the rows that choose them. REQUIRES: CheckKvSpec(spec, model.budget_max) found nothing.
ApiResult<KvResolution> ResolveKvPolicy(const KvSpec& spec, int32_t prompt_tokens, int32_t max_tokens,
                                        const KvModelFacts& model);

// The part of it that holds for a session that goes on as well, with what its spec once came to: it may have begun on another device.
std::optional<ApiError> CheckPins(const KvSpec& spec, const KvModelFacts& model);

// A default that no request of this model could use: a mistake where it is set, not one of every request.
std::optional<ApiError> CheckKvDefault(const KvSpec& spec, const KvModelFacts& model);

// Those of the names that some request of this model can have on its device.
std::vector<std::string> AvailableKvPolicies(const KvModelFacts& model);

// Preset names by policy_label.
std::vector<std::string> KvPolicyLabels();

}  // namespace hydrant

#endif  // HYDRANT_SERVER_KV_KV_RESOLUTION_H_
