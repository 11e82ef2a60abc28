// Bodies of POST /tokenize and POST /detokenize.
//
// Thread: any (plain data, pure functions).
#ifndef HYDRANT_API_REQUEST_TOKENIZE_H_
#define HYDRANT_API_REQUEST_TOKENIZE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/request/chat_request.h"
#include "api/request/request_context.h"
#include "api/wire/api_error.h"

namespace hydrant {

struct TokenizeRequest {
  std::string prompt;                        // may be empty
  std::optional<Conversation> conversation;  // instead of a prompt
  bool add_special_tokens = true;            // false by default where a template says which there are
  bool return_token_strs = false;
};

// Errors: 400 naming the field; 404 model_not_found. Either `prompt` or `messages`.
ApiResult<TokenizeRequest> ParseTokenizeRequest(std::string_view body, const RequestContext& context);
// {"count","max_model_len","tokens","token_strs"}; token_strs null when absent.
std::string TokenizeJson(const std::vector<int32_t>& tokens, const std::optional<std::vector<std::string>>& token_strs,
                         int32_t max_model_len);

// Body of POST /v1/chat/completions/render, with vLLM's name for the tokens: {"model","prompt","token_ids","count","features":null}.
std::string RenderedJson(std::string_view model, std::string_view prompt, const std::vector<int32_t>& token_ids);

// Body of GET /tokenizer_info, with the names of a tokenizer_config.json.
struct TokenizerInfo {
  std::string_view bos_token, eos_token, chat_template;  // empty: null
  int32_t vocab_size = 0;
  int32_t context = 0;
};
std::string TokenizerInfoJson(const TokenizerInfo& info);

struct DetokenizeRequest {
  std::vector<int32_t> tokens;  // in [0, vocab_size); may be empty
};

ApiResult<DetokenizeRequest> ParseDetokenizeRequest(std::string_view body, const RequestContext& context);
// {"prompt"}
std::string DetokenizeJson(std::string_view prompt);

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_TOKENIZE_H_
