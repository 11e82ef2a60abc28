// Where an answer to a chat stands that is held to a form: what of it is there already, and what thinking comes before it.
//
// Thread: any (pure function).
#ifndef HYDRANT_SERVER_GENERATION_SHAPE_START_H_
#define HYDRANT_SERVER_GENERATION_SHAPE_START_H_

#include "api/request/chat_request.h"
#include "api/request/completion_request.h"
#include "api/wire/api_error.h"
#include "server/generation/generation_prepare.h"
#include "server/shapes/grammar_shape.h"

namespace hydrant {

// `prompt`: of the request's conversation. Errors: 400 unsupported
// where calls are read from the answer and its form is not one of calls, or the model's template puts text of its own between thinking and
// answer that is no message. Where calls alone would be held the request then loses its constraint. REQUIRES: the request has one.
ApiResult<AnswerStart> MakeShapeStart(ChatRequest& request, const RequestPrompt& prompt, const ServingContext& context);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_GENERATION_SHAPE_START_H_
