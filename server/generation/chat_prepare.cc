#include "server/generation/chat_prepare.h"

#include <algorithm>
#include <ctime>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/request/messages_request.h"
#include "api/response/chat_writer.h"
#include "api/response/messages_writer.h"
#include "api/response/tool_call_parser.h"
#include "server/generation/shape_start.h"
#include "server/process/random_id.h"

namespace hydrant {
namespace {

// From here on a template's failure to stay within its limits is the conversation's doing: one that makes a prompt needs some
// 3 times the bytes of what it is given, and some 500 steps a message (jinja::Limits has 16 MiB and a million).
constexpr size_t kLongTextBytes = 1 << 20;
constexpr size_t kLongMessages = 1000;

// Bytes of all strings in a value. The recursion is bounded by the depth of a body.
size_t TextBytes(const nlohmann::ordered_json& value) {
  if (value.is_string()) return static_cast<std::string>(value).size();
  size_t bytes = 0;
  if (value.is_structured()) {
    for (const nlohmann::ordered_json& member : value) bytes += TextBytes(member);
  }
  return bytes;
}

bool IsLong(const Conversation& conversation) {
  return conversation.messages.size() > kLongMessages ||
         TextBytes(conversation.messages) + TextBytes(conversation.tools) + TextBytes(conversation.documents) >
             kLongTextBytes;
}

ApiError TemplateError(const absl::Status& status, const Conversation& conversation) {
  const std::string message(status.message());
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return InvalidField("messages", message, "template_error");
    case absl::StatusCode::kFailedPrecondition:
      return InvalidField("messages", absl::StrCat("The model's chat template does not fit these messages: ", message),
                          "template_error");
    case absl::StatusCode::kResourceExhausted:
      if (!IsLong(conversation)) break;
      return InvalidField("messages",
                          absl::StrCat("This conversation is too long for the model's chat template: ", message,
                                       ". Please shorten the messages."),
                          "context_length_exceeded");
    default:
      break;
  }
  return ServerError(absl::StrCat("The model's chat template was stopped: ", message), "template_error");
}

// What the client wrote as the last message, for an answer that begins with it.
std::string FinalContent(const Conversation& conversation) {
  const nlohmann::ordered_json& last = conversation.messages.back();
  const auto content = last.find("content");
  return content != last.end() && content->is_string() ? static_cast<std::string>(*content) : std::string();
}

// What the template is told beside the messages: what the client says of thinking under the name that the template has for it, and
// arguments that it reads. A client that wants no thinking of a model that has none has what it wants.
struct TemplateArguments {
  std::optional<bool> enable_thinking;
  nlohmann::ordered_json others;  // null: none
};
ApiResult<TemplateArguments> ArgumentsFor(const ChatSetup::Template& chat, const Conversation& conversation) {
  TemplateArguments arguments = {conversation.enable_thinking, conversation.template_arguments};
  if (arguments.others.is_object()) {
    for (const auto& member : arguments.others.items()) {
      if (chat.parsed->Reads(member.key()) && !ChatTemplate::IsOwnVariable(member.key())) continue;
      return InvalidField(absl::StrCat("chat_template_kwargs.", member.key()),
                          ChatTemplate::IsOwnVariable(member.key())
                              ? "This variable of the chat template is the server's to set."
                              : "The model's chat template has no variable of this name.",
                          "unsupported");
    }
  }
  const bool effort_none = conversation.reasoning_effort == "none" && !chat.parsed->Reads("reasoning_effort");
  if (effort_none && !arguments.enable_thinking.has_value()) arguments.enable_thinking = false;
  // DeepSeek's and Granite's name for it.
  constexpr const char* kOther = "thinking";
  if (arguments.enable_thinking.has_value() && !chat.parsed->Reads("enable_thinking") && chat.parsed->Reads(kOther)) {
    const bool thinks = *std::exchange(arguments.enable_thinking, std::nullopt);
    if (!arguments.others.is_object() || !arguments.others.contains(kOther)) arguments.others[kOther] = thinks;
  }
  return arguments;
}

// A template that has not heard of developers would drop their messages, refuse them, or write a role that the model does not know.
// Nullopt: the messages stay as they are.
std::optional<nlohmann::ordered_json> WithoutDevelopers(const ChatSetup::Template& chat,
                                                        const nlohmann::ordered_json& messages) {
  std::optional<nlohmann::ordered_json> without;
  for (size_t i = 0; i < messages.size() && !chat.names_developers; ++i) {
    if (messages[i].at("role") != "developer") continue;
    if (!without.has_value()) without = messages;
    (*without)[i]["role"] = "system";
  }
  return without;
}

}  // namespace

ApiResult<RequestPrompt> RenderConversation(const Conversation& conversation, const ServingContext& context) {
  const ChatSetup::Template& chat = context.chat.For(!conversation.tools.is_null());
  if (chat.source.empty()) {
    return InvalidField(
        "messages",
        "This model has no chat template. Use /v1/completions, or start the server with --chat-template FILE.",
        "chat_template_missing");
  }
  if (chat.parsed == nullptr) {
    return ServerError("The model's chat template cannot be used; the server's log says why.", "template_error");
  }
  ApiResult<TemplateArguments> arguments = ArgumentsFor(chat, conversation);
  if (!arguments.ok()) return arguments.error();
  const nlohmann::ordered_json& others = arguments.value().others;
  const std::optional<nlohmann::ordered_json> without = WithoutDevelopers(chat, conversation.messages);
  const nlohmann::ordered_json& messages = without.has_value() ? *without : conversation.messages;
  const std::optional<nlohmann::ordered_json> placed =
      WithReasoningPlaced(chat.reasoning, messages, conversation.continue_final_message);
  absl::StatusOr<ChatTemplate::Prompt> rendered = chat.parsed->Render(
      {placed.has_value() ? *placed : messages, conversation.tools, conversation.documents,
       conversation.reasoning_effort, conversation.add_generation_prompt, conversation.continue_final_message,
       std::time(nullptr), arguments.value().enable_thinking, others.is_object() ? &others : nullptr});
  if (!rendered.ok()) return TemplateError(rendered.status(), conversation);
  if (rendered->text.empty()) return EmptyPrompt();
  RequestPrompt prompt;
  prompt.text = std::move(rendered->text);
  prompt.client_ranges = std::move(rendered->client);
  prompt.reasoning = {chat.reasoning.open, chat.reasoning.close, chat.reasoning.lead};
  return prompt;
}

namespace {

bool HasSpecialMarker(ToolCallFormat format, const Tokenizer& tokenizer) {
  const std::span<const std::string_view> markers = ToolCallMarkers(format);
  return std::any_of(markers.begin(), markers.end(), [&tokenizer](std::string_view marker) {
    const std::vector<int32_t> ids = tokenizer.Encode(marker, {.add_special_tokens = false});
    return ids.size() == 1 && tokenizer.IsSpecial(ids[0]);
  });
}

}  // namespace

ToolCallFormat ToolCallsIn(ChatRequest* request, const ServingContext& context) {
  const ToolCallFormat format = request->parses_tool_calls ? context.chat.tool_calls : ToolCallFormat::kNone;
  if (HasSpecialMarker(format, *context.tokenizer)) request->skip_special_tokens = false;
  return format;
}

namespace {

// How the answer to this prompt is parted. Where a marker has special tokens, it is decoded with those.
ReasoningSplitter SplitterOf(ChatRequest* request, const RequestPrompt& prompt, const ServingContext& context) {
  const Conversation& conversation = request->conversation;
  const ReasoningFormat& format = context.chat.For(!conversation.tools.is_null()).reasoning;
  // Who wants reasoning in the text has it there; but calls are found by the heads of messages, and a form is behind one.
  const bool reads_messages =
      format.channels.known() && (request->parses_tool_calls || request->constraint.has_value());
  if (!format.known() || (!request->splits_reasoning && !reads_messages)) return {};
  const Tokenizer& tokenizer = *context.tokenizer;
  for (const std::string* marker : {&format.open, &format.close}) {
    for (const int32_t id : tokenizer.Encode(*marker, {.add_special_tokens = false})) {
      if (tokenizer.IsSpecial(id)) request->skip_special_tokens = false;
    }
  }
  const bool opened = OpensReasoning(format, prompt.text, prompt.client_ranges, conversation.continue_final_message);
  const ChannelFormat& channels = format.channels;
  if (!channels.known()) return ReasoningSplitter(prompt.reasoning, opened);
  const bool heads = !conversation.continue_final_message && EndsWithStart(channels, prompt.text);
  const auto begin = heads    ? ChannelReader::Begin::kHead
                     : opened ? ChannelReader::Begin::kThought
                              : ChannelReader::Begin::kText;
  const auto begins_with_token = [&tokenizer](const std::string& mark) {
    const std::vector<int32_t> ids = tokenizer.Encode(mark, {.add_special_tokens = false});
    return !ids.empty() && tokenizer.IsSpecial(ids[0]) && mark.starts_with(tokenizer.TokenBytes(ids[0]));
  };
  const auto marks = {channels.start, channels.channel, channels.message, channels.end};
  return ReasoningSplitter(ChannelReader(
      {channels.start, channels.channel, channels.message, channels.end,
       request->splits_reasoning ? channels.thought : "", std::all_of(marks.begin(), marks.end(), begins_with_token)},
      begin));
}

}  // namespace

ApiResult<PreparedGeneration> PrepareAnswer(ChatRequest& request, RequestPrompt prompt,
                                            std::unique_ptr<AnswerWriter> writer, const ServingContext& context,
                                            const TenantRules& rules, std::string_view messages) {
  PreparedGeneration prepared;
  prepared.writer = std::move(writer);
  prepared.reasoning = SplitterOf(&request, prompt, context);
  if (request.constraint.has_value()) {
    ApiResult<AnswerStart> start = MakeShapeStart(request, prompt, context);
    if (!start.ok()) return start.error();
    prepared.shape_start = std::move(start.value());
  }
  prepared.fields = std::move(static_cast<GenerationFields&>(request));
  std::vector<RequestPrompt> prompts;
  prompts.push_back(std::move(prompt));
  if (std::optional<ApiError> error = PreparePrompts(std::move(prompts), context, rules, &prepared)) {
    if (error->param == "prompt") error->param = messages;
    return std::move(*error);
  }
  return prepared;
}

ApiResult<PreparedGeneration> PrepareChat(std::string_view body, const ServingContext& context,
                                          const TenantRules& rules, const RequestHeaders& headers) {
  ApiResult<ChatRequest> parsed = ParseChatRequest(body, RequestContextOf(context, rules, headers));
  if (!parsed.ok()) return parsed.error();
  ChatRequest& request = parsed.value();
  ChatWriterOptions options;
  options.tool_calls = ToolCallsIn(&request, context);
  options.argument_types = ArgumentTypesOf(options.tool_calls, request.conversation.tools);
  options.call_ids = RandomId();
  options.parallel_tool_calls = request.parallel_tool_calls;
  options.named_tool = request.names_tool;
  options.tokens_as_ids = request.return_tokens_as_token_ids;
  options.include_reasoning = request.include_reasoning;
  if (request.echoes_final_message) options.echoed = FinalContent(request.conversation);
  ApiResult<RequestPrompt> prompt = RenderConversation(request.conversation, context);
  if (!prompt.ok()) return prompt.error();
  return PrepareAnswer(request, std::move(prompt.value()), std::make_unique<ChatWriter>(std::move(options)), context,
                       rules);
}

ApiResult<PreparedGeneration> PrepareMessages(std::string_view body, const ServingContext& context,
                                              const TenantRules& rules, const RequestHeaders& headers) {
  ApiResult<MessagesRequest> parsed = ParseMessagesRequest(body, RequestContextOf(context, rules, headers));
  if (!parsed.ok()) return parsed.error();
  MessagesRequest& request = parsed.value();
  MessagesWriterOptions options;
  options.tool_calls = ToolCallsIn(&request, context);
  options.argument_types = ArgumentTypesOf(options.tool_calls, request.conversation.tools);
  options.call_ids = RandomId();
  options.parallel_tool_calls = request.parallel_tool_calls;
  options.include_reasoning = request.include_reasoning;
  options.omits_thinking = request.omits_thinking;
  options.asked_tokens = request.asked_tokens;
  ApiResult<RequestPrompt> prompt = RenderConversation(request.conversation, context);
  if (!prompt.ok()) return prompt.error();
  return PrepareAnswer(request, std::move(prompt.value()), std::make_unique<MessagesWriter>(std::move(options)),
                       context, rules);
}

}  // namespace hydrant
