// EmbeddingRequest is a body of POST /v1/embeddings: parsed, validated and bounded; no JSON inside.
//
// Thread: any (plain data, pure functions).
//
// Invariants of a request that ParseEmbeddingRequest returned:
//  1. 1 <= prompts.size() <= limits.prompts_max, and no prompt is empty as sent; their states together have at most
//     kEmbeddingNumbersMax numbers.
//  2. max_tokens == 0, n == 1, pooling is not kNone, every token is kept, and there is no session.
//  3. A field that would change the vectors and cannot be honoured was absent or neutral.
#ifndef HYDRANT_API_REQUEST_EMBEDDING_REQUEST_H_
#define HYDRANT_API_REQUEST_EMBEDDING_REQUEST_H_

#include <cstdint>
#include <string_view>

#include "api/request/completion_request.h"
#include "api/request/request_context.h"
#include "api/wire/api_error.h"

namespace hydrant {

// Numbers that all vectors of a request may have: 1,024 states of 4,096. 32 MiB while they are made, and some 50 MiB of JSON.
inline constexpr int64_t kEmbeddingNumbersMax = 4 << 20;

struct EmbeddingRequest : CompletionRequest {
  bool as_base64 = false;  // little-endian fp32 instead of JSON numbers
};

// Reads and checks a body. Errors: 400 naming the field in `param`; 404 model_not_found.
ApiResult<EmbeddingRequest> ParseEmbeddingRequest(std::string_view body, const RequestContext& context);

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_EMBEDDING_REQUEST_H_
