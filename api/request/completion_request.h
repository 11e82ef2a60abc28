// CompletionRequest is a body of POST /v1/completions: parsed, validated and bounded; no JSON inside. What needs the
// tokenizer (empty after encoding, context length, truncation) is checked by functions of generation_fields.h once the ids
// are known.
//
// Thread: any (plain data, pure functions).
//
// Invariants of a request that ParseCompletionRequest returned, beside those of GenerationFields:
//  1. 1 <= prompts.size() <= limits.prompts_max, and no prompt is empty as sent; a turn of a session has one.
//  2. A field this server knows but cannot honour was absent or neutral: nothing the client asked for is dropped in
//     silence. Fields it does not know are ignored.
#ifndef HYDRANT_API_REQUEST_COMPLETION_REQUEST_H_
#define HYDRANT_API_REQUEST_COMPLETION_REQUEST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/request/generation_fields.h"
#include "api/request/request_context.h"
#include "api/response/reasoning_splitter.h"
#include "api/wire/api_error.h"
#include "model/text/byte_range.h"

namespace hydrant {

// A prompt as a request gives it, or as a chat template made it.
struct RequestPrompt {
  bool is_ids = false;
  std::string text;                      // !is_ids: not empty, valid UTF-8, may hold NUL
  std::vector<int32_t> ids;              // is_ids: not empty
  std::vector<ByteRange> client_ranges;  // of the text, ascending and disjoint: never part of a special token
  // Around reasoning, which the text may lack in answers of the past; empty: they have none.
  ReasoningMarkers reasoning;
};

struct CompletionRequest : GenerationFields {
  std::vector<RequestPrompt> prompts;
};

// The prompts of member `name`: a text, texts, token ids, or lists of these. Sets request's error.
void ReadPrompts(ObjectReader* request, std::string_view name, const RequestContext& context,
                 std::vector<RequestPrompt>* prompts);

// Reads and checks a body. Errors: 400 naming the field in `param`; 404 model_not_found.
ApiResult<CompletionRequest> ParseCompletionRequest(std::string_view body, const RequestContext& context);

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_COMPLETION_REQUEST_H_
