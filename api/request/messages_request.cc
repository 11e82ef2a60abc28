#include "api/request/messages_request.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/request/chat_tools.h"
#include "api/request/refused_fields.h"
#include "api/response/tool_call_parser.h"
#include "api/wire/json_body.h"
#include "api/wire/ordered_json.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

// A line that Claude Code puts before its system prompt. It differs from request to request, so that with it no prompt begins as
// another one does.
constexpr std::string_view kBillingLine = "x-anthropic-billing-header:";

// Fields of the other endpoints that have another name here, or no place in an answer.
constexpr std::array<OtherField, 30> kOtherFields = {{
    {"add_generation_prompt", ""},
    {"add_special_tokens", "", NeutralValue::kFalse},
    {"best_of", ""},
    {"continue_final_message", ""},
    {"conversation", "session_id"},
    {"documents", ""},
    {"echo", ""},
    {"enable_thinking", "thinking"},
    {"include", "", NeutralValue::kEmpty},
    {"include_reasoning", "thinking"},
    {"input", "messages"},
    {"instructions", "system"},
    {"logprobs", ""},
    {"max_completion_tokens", "max_tokens"},
    {"max_output_tokens", "max_tokens"},
    {"max_tool_calls", ""},
    {"n", ""},
    {"parallel_tool_calls", "tool_choice.disable_parallel_tool_use"},
    {"previous_response_id", "session_id"},
    {"prompt", "messages"},
    {"prompt_logprobs", ""},
    {"reasoning_effort", "output_config.effort"},
    {"return_token_ids", ""},
    {"return_tokens_as_token_ids", ""},
    {"separate_reasoning", ""},
    {"session_append", ""},
    {"stop", "stop_sequences"},
    {"stream_options", ""},
    {"top_logprobs", ""},
    {"truncation", "truncate_prompt_tokens", NeutralValue::kDisabled},
}};
// Fields of the endpoint that a count would have to differ by.
constexpr std::array<OtherField, 3> kOthersOfCount = {{
    {"reasoning", "output_config.effort"},
    {"tokens", "messages"},
    {"truncate_prompt_tokens", ""},
}};

// Fields of this endpoint that are of other servers' where they come to another one.
constexpr std::array<std::string_view, 3> kOwnFields = {"output_config", "stop_sequences", "thinking"};

void RefuseMessagesOthers(ObjectReader* request) {
  const ObjectReader::Unlogged unlogged(request);
  RefuseOtherFields(request, "/v1/messages", kOtherFields);
  if (request->failed()) return;
  // What would have to be run, kept or chosen here.
  for (const std::string_view name : {"container", "diagnostics", "inference_geo", "mcp_servers", "speed"}) {
    const JsonView value = request->Raw(name);
    if (value.absent() || (value.is_array() && value.size() == 0)) continue;
    if (value.is_string() && (value.string() == "standard" || value.string() == "global")) continue;
    return request->FailUnsupported(name, absl::StrCat("'", std::string(name), "'"));
  }
}

// Edits of what the client sends. To keep all thinking is to edit nothing.
void CheckContextManagement(ObjectReader* request) {
  if (!request->Has("context_management")) return;
  ObjectReader management = request->Object("context_management");
  const JsonView edits = management.Raw("edits");
  if (edits.absent()) return;
  if (!edits.is_array()) return management.Fail("edits", "'edits' must be an array.", "invalid_type");
  for (JsonView edit = edits.first(); edit.valid(); edit = edit.next()) {
    const bool keeps_all = edit.is_object() && edit["keep"].is_string() && edit["keep"].string() == "all";
    if (!keeps_all) return management.FailUnsupported("edits", "An edit that does not keep all");
  }
}

// ConversationReader makes the messages of templates of Anthropic's.
class ConversationReader {
 public:
  ConversationReader(ObjectReader* request, const RequestContext& context) : request_(request), context_(context) {}

  // Sets the request's error, or conversation's messages and how they go on.
  void Read(Conversation* conversation) {
    ReadSystem();
    ReadMessages();
    if (request_->failed()) return;
    if (messages_.size() > static_cast<size_t>(context_.limits.messages_max)) {
      return request_->Fail("messages", absl::StrCat("'messages' must have at most ", context_.limits.messages_max,
                                                     " members, each 'tool_result' and 'system' counted as one."));
    }
    const Json& last = messages_.back();
    const bool answer = IsOf(last, "assistant");
    if (answer && last.contains("tool_calls")) {
      return request_->Fail("messages", "The last message calls a tool: send its 'tool_result' after it.");
    }
    conversation->continue_final_message = answer;
    conversation->add_generation_prompt = !answer;
    conversation->messages = std::move(messages_);
  }

 private:
  static bool IsOf(const Json& message, std::string_view role) { return message.at("role") == std::string(role); }
  static void Join(std::string_view more, std::string_view between, std::string* text) {
    if (!text->empty() && !more.empty()) text->append(between);
    text->append(more);
  }

  std::string_view TypeOf(JsonView block, const std::string& path) {
    if (block.is_object() && block["type"].is_string()) return block["type"].string();
    request_->Fail(path, absl::StrCat("'", path, "' must be an object with a 'type'."), "invalid_type");
    return "";
  }

  std::string_view TextOf(JsonView block, std::string_view member, const std::string& path) {
    if (block[member].is_string()) return block[member].string();
    request_->Fail(path, absl::StrCat("'", path, "' must have a string as '", std::string(member), "'."),
                   block[member].absent() ? ErrorCode<400>("missing_field") : ErrorCode<400>("invalid_type"));
    return "";
  }

  // A string, or an array of text blocks.
  std::string Text(JsonView content, std::string_view between, const std::string& path, bool of_system = false) {
    if (content.is_string()) return std::string(content.string());
    std::string text;
    if (!content.is_array()) {
      request_->Fail(path, absl::StrCat("'", path, "' must be a string or an array of text blocks."),
                     content.absent() ? ErrorCode<400>("missing_field") : ErrorCode<400>("invalid_type"));
      return text;
    }
    size_t i = 0;
    for (JsonView block = content.first(); block.valid() && !request_->failed(); block = block.next()) {
      const std::string at = absl::StrCat(path, "[", i++, "]");
      const std::string_view type = TypeOf(block, at);
      if (request_->failed()) break;
      if (type != "text") {
        request_->FailUnsupported(absl::StrCat(at, ".type"), "A block other than text here");
        break;
      }
      const std::string_view said = TextOf(block, "text", at);
      if (!of_system || !said.starts_with(kBillingLine)) Join(said, between, &text);
    }
    return text;
  }

  void ReadSystem() {
    const JsonView system = request_->Raw("system");
    if (system.absent()) return;
    std::string text = Text(system, "\n\n", "system", /*of_system=*/true);
    if (!text.empty()) messages_.push_back({{"role", "system"}, {"content", std::move(text)}});
  }

  void ReadMessages() {
    const JsonView messages = request_->Raw("messages");
    if (messages.absent()) return request_->Fail("messages", "'messages' is required.", "missing_field");
    if (!messages.is_array()) return request_->Fail("messages", "'messages' must be an array.", "invalid_type");
    if (messages.size() == 0) return request_->Fail("messages", "'messages' must not be empty.");
    if (messages.size() > static_cast<uint32_t>(context_.limits.messages_max)) {
      return request_->Fail("messages",
                            absl::StrCat("'messages' must have at most ", context_.limits.messages_max, " members."));
    }
    size_t i = 0;
    for (JsonView message = messages.first(); message.valid() && !request_->failed(); message = message.next()) {
      const std::string path = absl::StrCat("messages[", i++, "]");
      if (!message.is_object()) return request_->Fail(path, "A message must be an object.", "invalid_type");
      const JsonView role = message["role"];
      const std::string content = path + ".content";
      if (role.is_string() && role.string() == "user") {
        ReadUser(message["content"], content);
      } else if (role.is_string() && role.string() == "assistant") {
        ReadAssistant(message["content"], content);
      } else {
        request_->Fail(path + ".role", "A message's 'role' must be user or assistant.",
                       role.absent() ? ErrorCode<400>("missing_field") : kInvalidValue);
      }
    }
    EndMessage();
  }

  // The message that is being read. Those of one role after one another are one.
  struct Said {
    std::string_view role;
    std::string text = {};
    std::string reasoning = {};
    Json::array_t calls = {};
  };

  Said& MessageOf(std::string_view role) {
    if (said_.has_value() && said_->role == role) return *said_;
    EndMessage();
    return said_.emplace(Said{role});
  }

  void EndMessage() {
    if (!said_.has_value()) return;
    Json::object_t message = {{"role", std::string(said_->role)}, {"content", nullptr}};
    if (!said_->text.empty() || said_->calls.empty()) message.back().second = std::move(said_->text);
    if (!said_->reasoning.empty()) message.emplace_back("reasoning_content", std::move(said_->reasoning));
    if (!said_->calls.empty()) message.emplace_back("tool_calls", std::move(said_->calls));
    messages_.push_back(std::move(message));
    said_.reset();
  }

  void ReadUser(JsonView content, const std::string& path) {
    if (!content.is_array()) return Join(Text(content, "\n", path), "\n", &MessageOf("user").text);
    if (content.size() == 0) MessageOf("user");
    size_t i = 0;
    for (JsonView block = content.first(); block.valid() && !request_->failed(); block = block.next()) {
      const std::string at = absl::StrCat(path, "[", i++, "]");
      const std::string_view type = TypeOf(block, at);
      if (request_->failed()) return;
      if (type == "text") {
        Join(TextOf(block, "text", at), "\n", &MessageOf("user").text);
      } else if (type == "tool_result") {
        AddToolResult(block, at);
      } else {
        request_->FailUnsupported(at + ".type", "A user's block other than text and tool_result");
      }
    }
  }

  void AddToolResult(JsonView block, const std::string& path) {
    const std::string_view id = TextOf(block, "tool_use_id", path);
    const auto call = names_.find(id);
    if (!request_->failed() && call == names_.end()) {
      request_->Fail(path + ".tool_use_id", "There is no 'tool_use' of this id before it.");
    }
    if (request_->failed()) return;
    const JsonView content = block["content"];
    std::string text = content.absent() ? std::string() : Text(content, "\n", path + ".content");
    EndMessage();
    messages_.push_back(
        {{"role", "tool"}, {"tool_call_id", std::string(id)}, {"name", call->second}, {"content", std::move(text)}});
  }

  void ReadAssistant(JsonView content, const std::string& path) {
    Said& message = MessageOf("assistant");
    if (!content.is_array()) return Join(Text(content, "", path), "", &message.text);
    size_t i = 0;
    for (JsonView block = content.first(); block.valid() && !request_->failed(); block = block.next()) {
      const std::string at = absl::StrCat(path, "[", i++, "]");
      const std::string_view type = TypeOf(block, at);
      if (request_->failed()) return;
      if (type == "text") {
        message.text.append(TextOf(block, "text", at));
      } else if (type == "thinking") {
        message.reasoning.append(TextOf(block, "thinking", at));
      } else if (type == "tool_use") {
        message.calls.push_back(ToolUse(block, at));
      } else if (type != "redacted_thinking") {  // which nobody but its maker can read
        request_->FailUnsupported(at + ".type", "An assistant's block other than text, thinking and tool_use");
      }
    }
  }

  Json ToolUse(JsonView block, const std::string& path) {
    const std::string_view id = TextOf(block, "id", path), name = TextOf(block, "name", path);
    if (request_->failed()) return nullptr;
    if (id.empty() || id.size() > context_.limits.identifier_bytes_max) {
      request_->Fail(path + ".id", "It must be a string of 1 to 256 bytes.");
    } else if (!IsFunctionName(name)) {
      request_->Fail(path + ".name", "A tool's 'name' must be 1 to 64 characters of [A-Za-z0-9_.-].");
    } else if (!block["input"].is_object()) {
      request_->Fail(path + ".input", "The 'input' of a 'tool_use' must be an object.", "invalid_type");
    }
    if (request_->failed()) return nullptr;
    names_.insert_or_assign(std::string(id), std::string(name));
    return Json{
        {"id", std::string(id)},
        {"type", "function"},
        {"function",
         {{"name", std::string(name)}, {"arguments", ReadOrderedJson(request_, path + ".input", block["input"])}}}};
  }

  ObjectReader* const request_;
  const RequestContext& context_;
  Json::array_t messages_;
  std::optional<Said> said_;                               // null: none has begun, or it has ended
  std::map<std::string, std::string, std::less<>> names_;  // of the tools that were called, by id
};

ToolChoice ReadMessagesToolChoice(ObjectReader* reader, MessagesRequest* request) {
  ToolChoice made;
  made.field = "tool_choice.type";
  made.stop_field = "stop_sequences";
  if (reader->Has("tool_choice")) {
    ObjectReader choice = reader->Object("tool_choice");
    const std::string type = choice.String("type", "", 16, /*identifier=*/true);
    made.parallel = !choice.Bool("disable_parallel_tool_use", false);
    if (type == "none") {
      made.kind = ToolChoice::Kind::kNone;
      request->conversation.tools = nullptr;
    } else if (type == "any") {
      made.kind = ToolChoice::Kind::kRequired;
    } else if (type == "tool") {
      made.kind = ToolChoice::Kind::kNamed;
      made.field = "tool_choice.name";
      made.name = choice.String("name", "", 64, /*identifier=*/true);
    } else if (type != "auto") {
      choice.Fail("type", "'tool_choice.type' must be auto, any, tool or none.");
    }
  }
  request->TakeToolChoice(made);
  return made;
}

// Whether the model thinks is its template's to say, if it says anything; how long, is the model's. Who did not ask for it
// sees nothing of it: programs take the first block for the text.
void ReadThinking(ObjectReader* reader, int64_t tokens_max, MessagesRequest* request) {
  request->include_reasoning = false;
  if (!reader->Has("thinking")) return;
  ObjectReader thinking = reader->Object("thinking");
  const std::string type = thinking.String("type", "", 16, /*identifier=*/true);
  if (type != "enabled" && type != "disabled" && type != "adaptive") {
    return thinking.Fail("type", "'thinking.type' must be enabled, adaptive or disabled.");
  }
  const std::string display = thinking.String("display", "summarized", 16, /*identifier=*/true);
  if (display != "summarized" && display != "omitted") {
    return thinking.Fail("display", "'thinking.display' must be summarized or omitted.");
  }
  request->omits_thinking = display == "omitted";
  const std::optional<int64_t> budget = thinking.OptionalInteger("budget_tokens", 1, 1 << 30);
  if (type == "enabled" && !budget.has_value()) {
    return thinking.Fail("budget_tokens", "'thinking.budget_tokens' is required.", "missing_field");
  }
  if (budget.has_value() && tokens_max > 0 && *budget >= tokens_max) {
    return thinking.Fail("budget_tokens", "'thinking.budget_tokens' must be less than 'max_tokens'.");
  }
  if (type != "adaptive") request->conversation.enable_thinking = type == "enabled";
  request->include_reasoning = type != "disabled";
}

void ReadOutputConfig(ObjectReader* request, Conversation* conversation) {
  if (!request->Has("output_config")) return;
  ObjectReader config = request->Object("output_config");
  config.RefuseOthers({"effort", "format"});
  ReadEffort(&config, "effort", conversation);
}

void ReadMessagesConversation(ObjectReader* reader, const RequestContext& context, int64_t tokens_max,
                              MessagesRequest* request) {
  Conversation& conversation = request->conversation;
  RefuseMessagesOthers(reader);
  CheckContextManagement(reader);
  ConversationReader(reader, context).Read(&conversation);
  conversation.tools = ReadMessagesTools(reader);
  ReadThinking(reader, tokens_max, request);
  ReadOutputConfig(reader, &conversation);
  ReadTemplateArguments(reader, &conversation);
}

}  // namespace

ApiResult<MessagesRequest> ParseMessagesRequest(std::string_view body, const RequestContext& context) {
  return ParseBody<MessagesRequest>(body, context, [&](ObjectReader* reader, JsonBudget*, MessagesRequest* request) {
    if (!reader->Has("max_tokens")) reader->Fail("max_tokens", "'max_tokens' is required.", "missing_field");
    request->asked_tokens = request->max_tokens = ReadMaxTokens(reader, context, 1, 1);
    ReadMessagesConversation(reader, context, request->asked_tokens, request);
    const ToolChoice choice = ReadMessagesToolChoice(reader, request);
    reader->Number("temperature", 1.0, 0.0, 1.0);
    request->add_special_tokens = false;
    request->logprobs = -1;
    ReadGenerationFields(reader, context, request);
    request->stop = reader->Strings("stop_sequences", context.limits.stop_max, context.limits.stop_bytes_max);
    ReadToolConstraint(reader, context, request->conversation.tools, choice, request);
    RefuseGenerationFields(reader, kOwnFields);
    request->fits_context = true;
    // What the first event and the last one say.
    request->include_usage = request->continuous_usage_stats = true;
  });
}

ApiResult<Conversation> ParseCountTokensRequest(std::string_view body, const RequestContext& context) {
  return ParseBody<Conversation>(body, context, [&](ObjectReader* reader, JsonBudget*, Conversation* conversation) {
    MessagesRequest request;
    RefuseOtherFields(reader, "/v1/messages/count_tokens", kOthersOfCount);
    ReadMessagesConversation(reader, context, /*tokens_max=*/0, &request);
    ReadMessagesToolChoice(reader, &request);
    *conversation = std::move(request.conversation);
  });
}

}  // namespace hydrant
