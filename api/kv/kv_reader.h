// Reads the request field `kv` into a KvSpec.
//
// Thread: any (pure function).
#ifndef HYDRANT_API_KV_KV_READER_H_
#define HYDRANT_API_KV_KV_READER_H_

#include <string_view>

#include "api/kv/kv_spec.h"
#include "api/wire/object_reader.h"

namespace hydrant {

// The members of `kv` that ReadKvSpec reads.
inline constexpr std::string_view kKvMembers[] = {"policy",  "budget",  "recent", "cadence", "position",
                                                  "prefill", "elastic", "floor",  "recall"};

// Sets request's error where its member `kv` has a member that is none of these. A tenant's `kv` has others beside them.
void RefuseOtherKvMembers(ObjectReader* request);

// The spec that `request`'s member `kv` asks for; absent members come from `default_value`:
//  - no `kv`: `default_value`;
//  - no `policy`: the preset of `default_value`, or h2o when that is full and the object speaks of budgets;
//  - the policy `full` stands alone: nothing of `default_value` is taken over but `recall`, which means nothing there;
//  - another preset than its own takes over budget, cadence, position, elastic and, where it can, prefill; `recent` only
//    if neither preset nor budget change, `floor` only if the budget does not;
//  - of `recall` and what it cannot be with, `position` rolling and `prefill` budgeted, what is said counts.
// Errors go to request's error, and `default_value` comes back. REQUIRES: CheckKvSpec(default_value, budget_max) found nothing.
KvSpec ReadKvSpec(ObjectReader* request, const KvSpec& default_value, int32_t budget_max);

}  // namespace hydrant

#endif  // HYDRANT_API_KV_KV_READER_H_
