// MakeSessionKv says which of a session's tokens the cache still holds: scores and positions by slot, as the engine thread
// copied them, become counts and scores by token.
//
// Thread: any (pure); meant for a worker thread. Linear in the slots times the (layer, KV head) pairs: 0.4 ms for 257 slots of
// the default model's 90 pairs, 3 ms for 2,049.
#ifndef HYDRANT_SERVER_LIVE_VIEW_KV_MAP_H_
#define HYDRANT_SERVER_LIVE_VIEW_KV_MAP_H_

#include <cstdint>
#include <string>

#include "api/session/session_kv.h"
#include "model/tokenizer/tokenizer.h"
#include "server/engine/kv_reading.h"
#include "server/sessions/session_store.h"

namespace hydrant {

// (layer, KV head) pairs of the model.
struct KvShape {
  int32_t layers = 1;
  int32_t kv_heads = 1;
  int32_t layer_heads() const { return layers * kv_heads; }
};

// Whether what the engine and the store say is about the same moment: a turn that ended for one of them may be in progress
// for the other.
bool KvReadingFits(const KvReading& reading, const SessionStore::View& view);

// A reading that does not fit counts as one of nothing. `tokenizer` outlives the result.
SessionKv MakeSessionKv(const std::string& id, const SessionStore::View& view, const KvReading& reading,
                        const KvShape& shape, const Tokenizer& tokenizer, const SessionKvQuery& query);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_LIVE_VIEW_KV_MAP_H_
