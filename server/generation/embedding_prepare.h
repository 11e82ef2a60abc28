// How POST /v1/embeddings prepares its requests.
//
// Thread: any (pure function).
#ifndef HYDRANT_SERVER_GENERATION_EMBEDDING_PREPARE_H_
#define HYDRANT_SERVER_GENERATION_EMBEDDING_PREPARE_H_

#include <string_view>

#include "server/generation/generation_prepare.h"

namespace hydrant {

// Errors: those of ParseEmbeddingRequest and PreparePrompts, with `input` where these say `prompt`. Every token of an input is kept
// while it is computed, whatever policy the server or the tenant has for answers.
ApiResult<PreparedGeneration> PrepareEmbeddings(std::string_view body, const ServingContext& context,
                                                const TenantRules& rules = {}, const RequestHeaders& headers = {});

}  // namespace hydrant

#endif  // HYDRANT_SERVER_GENERATION_EMBEDDING_PREPARE_H_
