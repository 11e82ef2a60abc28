#include "api/request/chat_request.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/request/chat_tools.h"
#include "api/request/refused_fields.h"
#include "api/wire/json_body.h"
#include "api/wire/ordered_json.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant", "tool"};

std::string Numbered(std::string_view list, size_t i, std::string_view member = "") {
  std::string path = absl::StrCat(std::string(list), "[", i, "]");
  if (!member.empty()) absl::StrAppend(&path, ".", std::string(member));
  return path;
}

// The text of all parts, one line each, as vLLM joins them. A refusal is what an assistant said.
Json JoinedParts(ObjectReader* request, JsonView parts, bool of_assistant, const std::string& path) {
  std::string text;
  for (JsonView part = parts.first(); part.valid(); part = part.next()) {
    if (!part.is_object() || !part["type"].is_string()) {
      request->Fail(path, absl::StrCat("'", path, "' must hold objects with a 'type'."), "invalid_type");
      return nullptr;
    }
    const std::string_view type = part["type"].string();
    if (type != "text" && !(of_assistant && type == "refusal")) {
      request->FailUnsupported(path, "A content part other than text");
      return nullptr;
    }
    const JsonView said = part[type];
    if (!said.is_string()) {
      const std::string name(type);
      request->Fail(path, absl::StrCat("A ", name, " part of '", path, "' must have a string as '", name, "'."),
                    "invalid_type");
      return nullptr;
    }
    if (!text.empty()) text.push_back('\n');
    text.append(said.string());
  }
  return text;
}

Json Content(ObjectReader* request, JsonView content, bool of_assistant, const std::string& path) {
  if (content.is_string()) return std::string(content.string());
  if (content.is_array()) return JoinedParts(request, content, of_assistant, path);
  if (!content.absent() || !of_assistant) {
    request->Fail(path, absl::StrCat("'", path, "' must be a string or an array of text parts."),
                  content.valid() ? ErrorCode<400>("invalid_type") : ErrorCode<400>("missing_field"));
  }
  return nullptr;
}

// Clients send an answer back as they got it, its `refusal` included.
Json WithRefusal(ObjectReader* request, Json content, JsonView refusal, const std::string& path) {
  if (refusal.absent()) return content;
  if (!refusal.is_string()) request->Fail(path, QuotedField(path) + " must be a string.", "invalid_type");
  if (request->failed() || refusal.string().empty()) return content;
  const std::string refused(refusal.string());
  if (!content.is_string()) return refused;
  const std::string said = content;
  return absl::StrCat(said, said.empty() ? "" : "\n", refused);
}

Json Message(ObjectReader* request, JsonView message, size_t i, const RequestContext& context, JsonBudget* budget) {
  if (!message.is_object()) {
    request->Fail(Numbered("messages", i), "A message must be an object.", "invalid_type");
    return nullptr;
  }
  const JsonView role = message["role"];
  if (!role.is_string() || std::find(kRoles.begin(), kRoles.end(), role.string()) == kRoles.end()) {
    request->Fail(Numbered("messages", i, "role"),
                  "A message's 'role' must be system, developer, user, assistant or tool.",
                  role.absent() ? ErrorCode<400>("missing_field") : kInvalidValue);
    return nullptr;
  }
  Json::object_t members;
  const auto add = [&](std::string_view name, Json value) {
    members.emplace_back(std::string(name), std::move(value));
  };
  const bool of_assistant = role.string() == "assistant";
  add("role", std::string(role.string()));
  Json content = Content(request, message["content"], of_assistant, Numbered("messages", i, "content"));
  if (of_assistant) {
    content = WithRefusal(request, std::move(content), message["refusal"], Numbered("messages", i, "refusal"));
  }
  add("content", std::move(content));
  for (const std::string_view name : {"name", "tool_call_id"}) {
    const JsonView value = message[name];
    if (value.absent()) continue;
    const bool fits = value.is_string() && value.string().size() <= context.limits.identifier_bytes_max;
    if (!fits)
      request->Fail(Numbered("messages", i, name), "It must be a string of at most 256 bytes.", "invalid_type");
    if (fits) add(name, std::string(value.string()));
  }
  // Servers and clients have had three names for it; templates read the first.
  for (const std::string_view name : {"reasoning_content", "reasoning", "thinking"}) {
    if (!of_assistant || !message[name].is_string()) continue;
    add("reasoning_content", std::string(message[name].string()));
    break;
  }
  const JsonView calls = message["tool_calls"];
  const bool has_calls = !calls.absent() && !(calls.is_array() && calls.size() == 0);
  if (has_calls) add("tool_calls", ReadToolCalls(request, calls, Numbered("messages", i, "tool_calls"), budget));
  return members;
}

void ReadMessages(ObjectReader* request, const RequestContext& context, JsonBudget* budget,
                  Conversation* conversation) {
  const JsonView messages = request->Raw("messages");
  if (!messages.valid()) return request->Fail("messages", "'messages' is required.", "missing_field");
  if (!messages.is_array()) return request->Fail("messages", "'messages' must be an array.", "invalid_type");
  if (messages.size() == 0) return request->Fail("messages", "'messages' must not be empty.");
  if (messages.size() > static_cast<uint32_t>(context.limits.messages_max)) {
    return request->Fail("messages",
                         absl::StrCat("'messages' must have at most ", context.limits.messages_max, " members."));
  }
  Json::array_t read;
  for (JsonView message = messages.first(); message.valid() && !request->failed(); message = message.next()) {
    read.push_back(Message(request, message, read.size(), context, budget));
  }
  conversation->messages = std::move(read);
}

void ReadDocuments(ObjectReader* request, Conversation* conversation) {
  const JsonView documents = request->Raw("documents");
  if (!documents.valid()) return;
  if (!documents.is_array()) return request->Fail("documents", "'documents' must be an array.", "invalid_type");
  for (JsonView document = documents.first(); document.valid(); document = document.next()) {
    if (!document.is_object()) return request->Fail("documents", "A document must be an object.", "invalid_type");
  }
  conversation->documents = ReadOrderedJson(request, "documents", documents);
}

void ReadLogprobs(ObjectReader* request, const RequestContext& context, ChatRequest* chat) {
  const bool wanted = request->Bool("logprobs", false);
  const std::optional<int64_t> top = request->OptionalInteger("top_logprobs", 0, context.limits.logprobs_max);
  if (top.has_value() && !wanted) {
    return request->Fail("top_logprobs", "'top_logprobs' needs 'logprobs': true.");
  }
  chat->logprobs = wanted ? static_cast<int32_t>(top.value_or(0)) : -1;
}

// Also of messages that were refused, the last of which may be nothing.
bool EndsWithAnswer(const Conversation& conversation) {
  if (conversation.messages.empty()) return false;
  const Json& last = conversation.messages.back();
  const auto role = last.find("role");
  return role != last.end() && *role == "assistant";
}

bool IsVariableName(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

// vLLM's `include_reasoning`; SGLang's `separate_reasoning`, which leaves what the model thinks in the content.
void ReadReasoningFields(ObjectReader* request, ChatRequest* chat) {
  chat->include_reasoning = request->Bool("include_reasoning", true);
  chat->splits_reasoning = request->Bool("separate_reasoning", true);
  if (!chat->splits_reasoning && !chat->include_reasoning) {
    request->Fail("separate_reasoning",
                  "'separate_reasoning': false cannot be combined with 'include_reasoning': false.");
  }
}

}  // namespace

void ReadConversation(ObjectReader* request, const RequestContext& context, JsonBudget* budget,
                      Conversation* conversation) {
  ReadMessages(request, context, budget, conversation);
  conversation->tools = ReadTools(request);
  ReadDocuments(request, conversation);
  ReadEffort(request, "reasoning_effort", conversation);
  ReadTemplateFields(request, conversation);
  conversation->continue_final_message = request->Bool("continue_final_message", false);
  conversation->add_generation_prompt = request->Bool("add_generation_prompt", !conversation->continue_final_message);
  if (conversation->continue_final_message && conversation->add_generation_prompt) {
    request->Fail("continue_final_message",
                  "'continue_final_message' cannot be combined with 'add_generation_prompt': true.");
  }
}

std::string ReadEffort(ObjectReader* object, std::string_view name, Conversation* conversation) {
  constexpr size_t kBytesMax = 16;
  std::string effort = object->String(name, "", kBytesMax, /*identifier=*/true);
  if (!effort.empty()) conversation->reasoning_effort = effort;
  return effort;
}

void ReadTemplateFields(ObjectReader* request, Conversation* conversation) {
  if (request->Has("enable_thinking")) conversation->enable_thinking = request->Bool("enable_thinking", false);
  ReadTemplateArguments(request, conversation);
}

void ReadTemplateArguments(ObjectReader* request, Conversation* conversation) {
  constexpr std::string_view kField = "chat_template_kwargs";
  constexpr uint32_t kMembersMax = 16;
  constexpr size_t kTextBytesMax = 1024;
  if (!request->Has(kField)) return;
  const JsonView given = request->Raw(kField);
  if (!given.is_object()) return request->Fail(kField, "'chat_template_kwargs' must be an object.", "invalid_type");
  if (given.size() > kMembersMax) {
    return request->Fail(kField, absl::StrCat("'chat_template_kwargs' must have at most ", kMembersMax, " members."));
  }
  ObjectReader members = request->Object(kField);
  Json::object_t arguments;
  for (JsonView member = given.first(); member.valid(); member = member.next()) {
    const std::string name(member.key());
    if (member.absent()) continue;
    if (!IsVariableName(name)) {
      return request->Fail(kField, "A name in 'chat_template_kwargs' must be 1 to 64 characters of [A-Za-z0-9_].");
    }
    const bool is_text = member.is_string() && member.string().size() <= kTextBytesMax;
    if (!is_text && !member.is_number() && !member.is_bool()) {
      return members.Fail(name,
                          absl::StrCat("A member of 'chat_template_kwargs' must be a string of at most ", kTextBytesMax,
                                       " bytes, a number or a boolean."),
                          "invalid_type");
    }
    if (name == "enable_thinking") {
      const bool thinks = members.Bool(name, false);
      if (conversation->enable_thinking.value_or(thinks) != thinks) {
        return members.Fail(name, "'chat_template_kwargs.enable_thinking' and what else says so must not differ.");
      }
      conversation->enable_thinking = thinks;
      continue;
    }
    Json value = ReadOrderedJson(request, members.Path(name), member);
    if (name == "reasoning_effort") {
      if (!conversation->reasoning_effort.is_null() && conversation->reasoning_effort != value) {
        return members.Fail(name, "'chat_template_kwargs.reasoning_effort' and what else says so must not differ.");
      }
      conversation->reasoning_effort = std::move(value);
      continue;
    }
    arguments.emplace_back(name, std::move(value));
  }
  if (!arguments.empty()) conversation->template_arguments = std::move(arguments);
}

void ChatRequest::TakeToolChoice(const ToolChoice& choice) {
  parses_tool_calls = !conversation.tools.is_null();
  // A function that is named is called once, and it is no choice of the model's to call it.
  names_tool = choice.kind == ToolChoice::Kind::kNamed;
  parallel_tool_calls = choice.parallel && !names_tool;
}

ApiResult<ChatRequest> ParseChatRequest(std::string_view body, const RequestContext& context) {
  return ParseBody<ChatRequest>(body, context, [&](ObjectReader* reader, JsonBudget* budget, ChatRequest* request) {
    RefuseChatFields(reader);
    ReadConversation(reader, context, budget, &request->conversation);
    const ToolChoice choice = ReadToolChoice(reader, ToolNaming::kNested);
    // A model that is not told of tools does not call them.
    if (choice.kind == ToolChoice::Kind::kNone) request->conversation.tools = nullptr;
    request->TakeToolChoice(choice);
    ReadReasoningFields(reader, request);
    ReadLogprobs(reader, context, request);
    request->max_tokens = ReadMaxTokens(reader, context, kRestOfContext, 1);
    request->echoes_final_message = reader->Bool("echo", false) && EndsWithAnswer(request->conversation);
    request->add_special_tokens = reader->Bool("add_special_tokens", false);
    ReadGenerationFields(reader, context, request);
    ReadToolConstraint(reader, context, request->conversation.tools, choice, request);
    if (request->session_append) {
      reader->Fail("session_append", "A chat sends all of its messages: 'session_append' is for /v1/completions.");
    }
    RefuseGenerationFields(reader);
  });
}

}  // namespace hydrant
