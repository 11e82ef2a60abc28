// Whether a past that came from elsewhere is one that this server could have made: what it says decides how much is computed and
// what is indexed with it, and whoever sent it may have made it up.
//
// Thread: any (pure).
#ifndef HYDRANT_SERVER_SESSIONS_PAST_CHECK_H_
#define HYDRANT_SERVER_SESSIONS_PAST_CHECK_H_

#include <cstdint>
#include <optional>

#include "api/wire/api_error.h"
#include "server/kv/kv_resolution.h"
#include "server/sessions/session_store.h"

namespace hydrant {

// `past`: DecodePast's. Errors name the field. `vocab`: token ids are below it.
std::optional<ApiError> CheckPast(const SessionPast& past, int32_t vocab, const KvModelFacts& facts);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_PAST_CHECK_H_
