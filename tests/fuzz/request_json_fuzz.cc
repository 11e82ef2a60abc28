// Whatever a body is, reading it ends in a request within its ranges or in an error that is well-formed JSON.
#include <string_view>

#include "api/request/completion_request.h"
#include "api/request/tokenize.h"
#include "tests/fuzz/request_properties.h"

namespace hydrant {

void Fuzz(std::string_view input) {
  const RequestContext context = FuzzContext();
  const ApiResult<CompletionRequest> completion = ParseCompletionRequest(input, context);
  if (completion.ok()) {
    CheckFields(completion.value(), context);
    Require(!completion.value().prompts.empty(), "there is a prompt");
    for (const RequestPrompt& prompt : completion.value().prompts) {
      Require(prompt.is_ids ? !prompt.ids.empty() && AreIds(prompt.ids) : !prompt.text.empty(),
              "prompts are not empty");
    }
  } else {
    CheckError(completion.error());
  }
  const ApiResult<TokenizeRequest> tokenize = ParseTokenizeRequest(input, context);
  if (!tokenize.ok()) CheckError(tokenize.error());
  const ApiResult<DetokenizeRequest> detokenize = ParseDetokenizeRequest(input, context);
  if (!detokenize.ok()) CheckError(detokenize.error());
}

}  // namespace hydrant
