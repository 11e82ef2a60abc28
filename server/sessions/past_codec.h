// How a session's past is written into the log: what a turn added to the one before. Tokens, text and ranges of two turns have a
// common beginning, which is not written again.
//
// Thread: any (pure).
#ifndef HYDRANT_SERVER_SESSIONS_PAST_CODEC_H_
#define HYDRANT_SERVER_SESSIONS_PAST_CODEC_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/sessions/session_store.h"

namespace hydrant {

// `before`: what the reader will have; null: nothing. `model`: whose tokens these are.
std::string EncodePast(const SessionPast& past, const SessionPast* before, const ModelId& model);

// What the bodies, each encoded against the one before it, come to. nullopt: they are none, or of another model. `past.turn` is the
// caller's to set.
std::optional<SessionPast> DecodePast(std::span<const std::string> bodies, const ModelId& model);

// Whose tokens a body says it has. nullopt: it is none.
std::optional<ModelId> ModelOfPast(std::string_view body);

// What KV on the disk depends on beside the tokens: the past's KV policy as EncodePast writes it, and its adapter where there is one.
std::string EncodeKvPolicy(const SessionPast& past);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_PAST_CODEC_H_
