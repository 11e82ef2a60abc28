// SharePrefixes says what a request may take from the prefix cache and leave there, given how its tokens are evicted.
//
//   never evicts               shares K and V, nothing else is read
//   no scores                  score blocks with positions; scores stay 0
//   scores of the last W rows  the same, and the last W rows of the prompt are always computed
//   scores of all rows         from a snapshot of the prefix's scores; rows that choose pins are always computed
//   scores that decay, of all rows: how much a row counts depends on how long the prompt is; the request publishes only
//   rolling positions          as the scores say, but among requests with rolling positions only: their keys are cached
//                              before rotation
//
// Thread: any (pure).
#ifndef HYDRANT_SERVER_ENGINE_PREFIX_SHARING_H_
#define HYDRANT_SERVER_ENGINE_PREFIX_SHARING_H_

#include "block_manager/prefix_use.h"
#include "kernels/eviction_policy.h"

namespace hydrant {

// `whole_prompt`: every prompt token's logits are asked for, so none can be skipped.
PrefixUse SharePrefixes(const EvictionPolicy& policy, const PrefixSalt& salt, bool whole_prompt);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_ENGINE_PREFIX_SHARING_H_
