// Makes prompts of conversations, for POST /v1/chat/completions, POST /v1/messages and POST /tokenize.
//
// Thread: any (pure but for what PreparePrompts does).
#ifndef HYDRANT_SERVER_GENERATION_CHAT_PREPARE_H_
#define HYDRANT_SERVER_GENERATION_CHAT_PREPARE_H_

#include <memory>
#include <string_view>

#include "api/request/chat_request.h"
#include "server/generation/generation_prepare.h"

namespace hydrant {

// The text that the model's template makes of the conversation; what the client wrote in it is plain. Errors: 400
// chat_template_missing; 400 template_error where the template refuses the conversation, with its words, or does not fit it;
// 400 unsupported for an argument that it does not read;
// 400 context_length_exceeded where it goes over its limits for a long conversation; 500 template_error where it does so for
// another, or does not parse.
ApiResult<RequestPrompt> RenderConversation(const Conversation& conversation, const ServingContext& context);

// POST /v1/chat/completions. Errors: those of ParseChatRequest, RenderConversation and PreparePrompts.
ApiResult<PreparedGeneration> PrepareChat(std::string_view body, const ServingContext& context,
                                          const TenantRules& rules = {}, const RequestHeaders& headers = {});

// What the endpoints of conversations have in common. The format of the calls that the answer is looked through for; where they begin
// with a special token, it is decoded with those.
ToolCallFormat ToolCallsIn(ChatRequest* request, const ServingContext& context);
// Prepares what is to follow the prompt. Errors: those of PreparePrompts, which name the endpoint's field for `messages`.
ApiResult<PreparedGeneration> PrepareAnswer(ChatRequest& request, RequestPrompt prompt,
                                            std::unique_ptr<AnswerWriter> writer, const ServingContext& context,
                                            const TenantRules& rules, std::string_view messages = "messages");

// POST /v1/messages. Errors: those of ParseMessagesRequest, RenderConversation and PreparePrompts.
ApiResult<PreparedGeneration> PrepareMessages(std::string_view body, const ServingContext& context,
                                              const TenantRules& rules = {}, const RequestHeaders& headers = {});

}  // namespace hydrant

#endif  // HYDRANT_SERVER_GENERATION_CHAT_PREPARE_H_
