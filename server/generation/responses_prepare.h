// Prepares POST /v1/responses: items become a conversation, and what follows is a chat's way to the engine.
//
// A response that is stored is a turn of a session (response_notes.h). One that goes on from the newest turn of its session goes on with
// that session, and its prompt is the past's tokens and what is new; one that goes on from an older turn, or from one that somebody
// else is going on from, begins a session of its own with the tokens up to there. With other instructions or tools than before, all
// is rendered and computed anew.
//
// Thread: any (as generation_prepare.h).
#ifndef HYDRANT_SERVER_GENERATION_RESPONSES_PREPARE_H_
#define HYDRANT_SERVER_GENERATION_RESPONSES_PREPARE_H_

#include <cstdint>
#include <string_view>

#include "server/generation/generation_prepare.h"

namespace hydrant {

// POST /v1/responses. Errors: those of ParseResponsesRequest, RenderConversation and PreparePrompts; 404 previous_response_not_found,
// conversation_not_found, response_not_found (of an item); 409 conversation_locked. May wait for the disk.
ApiResult<PreparedGeneration> PrepareResponses(std::string_view body, const ServingContext& context,
                                               const TenantRules& rules = {}, const RequestHeaders& headers = {});

// POST /v1/responses/input_tokens: the tokens of the prompt that the same body would make, of however many there is room for. Errors: those
// of PrepareResponses that speak of what is asked. May wait for the disk.
ApiResult<int64_t> CountResponseTokens(std::string_view body, const ServingContext& context,
                                       const TenantRules& rules = {});

}  // namespace hydrant

#endif  // HYDRANT_SERVER_GENERATION_RESPONSES_PREPARE_H_
