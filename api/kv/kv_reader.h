// Reads the request field `kv` into a KvSpec.
//
// Thread: any (pure function).
#ifndef HYDRANT_API_KV_KV_READER_H_
#define HYDRANT_API_KV_KV_READER_H_

#include "api/kv/kv_spec.h"
#include "api/wire/object_reader.h"

namespace hydrant {

// The spec that `request`'s member `kv` asks for; absent members come from `otherwise`:
//  - no `kv`: `otherwise`;
//  - no `policy`: the preset of `otherwise`, or h2o when that is full and the object speaks of budgets;
//  - the policy `full` stands alone: nothing of `otherwise` is taken over;
//  - another preset than otherwise's takes over budget, cadence, position, elastic and, where it can, prefill; `recent` only
//    if neither preset nor budget change, `floor` only if the budget does not.
// Errors go to request's error, and `otherwise` comes back. REQUIRES: CheckKvSpec(otherwise, budget_max) found nothing.
KvSpec ReadKvSpec(ObjectReader* request, const KvSpec& otherwise, int32_t budget_max);

}  // namespace hydrant

#endif  // HYDRANT_API_KV_KV_READER_H_
