#include "server/generation/embedding_prepare.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "api/request/embedding_request.h"
#include "api/response/embedding_writer.h"

namespace hydrant {

ApiResult<PreparedGeneration> PrepareEmbeddings(std::string_view body, const ServingContext& context,
                                                const TenantRules& rules, const RequestHeaders& headers) {
  ApiResult<EmbeddingRequest> parsed = ParseEmbeddingRequest(body, RequestContextOf(context, rules, headers));
  if (!parsed.ok()) return parsed.error();
  EmbeddingRequest& request = parsed.value();
  PreparedGeneration prepared;
  prepared.writer = std::make_unique<EmbeddingWriter>(request.as_base64);
  std::vector<RequestPrompt> prompts = std::move(request.prompts);
  prepared.fields = std::move(static_cast<GenerationFields&>(request));
  std::optional<ApiError> error = PreparePrompts(std::move(prompts), context, rules, &prepared);
  if (!error.has_value()) return prepared;
  if (error->param == "prompt") {
    error->message = absl::StrReplaceAll(error->message, {{"input prompt", "input"}, {"prompt", "input"}});
  }
  if (error->param == "prompt" || error->param == "kv.budget") error->param = "input";
  return *std::move(error);
}

}  // namespace hydrant
