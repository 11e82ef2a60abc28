#include "api/request/response_items.h"

#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "api/request/past_arguments.h"
#include "api/response/tool_call_parser.h"
#include "api/wire/json_writer.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kIncomplete = "incomplete";

// Reads one list of items.
class ItemReader {
 public:
  ItemReader(ObjectReader* request, const RequestContext& context, JsonBudget* budget)
      : request_(request), context_(context), budget_(budget) {}

  Json Read(JsonView item, const std::string& path) {
    if (!item.is_object()) return Fail(path, "An item must be an object.", "invalid_type");
    const JsonView type = item["type"];
    if (type.absent() && !item["role"].absent()) return Message(item, path);
    if (!type.is_string()) {
      return Fail(path + ".type", "An item must have a 'type', or be a message with a 'role'.",
                  type.absent() ? ErrorCode<400>("missing_field") : ErrorCode<400>("invalid_type"));
    }
    const std::string_view name = type.string();
    if (name == "message") return Message(item, path);
    if (name == "reasoning") return Reasoning(item, path);
    if (name == "function_call") return Call(item, "arguments", path);
    if (name == "custom_tool_call") return Call(item, "input", path);
    if (name == "function_call_output" || name == "custom_tool_call_output") return Output(item, path);
    if (name == "item_reference") return Reference(item, path);
    return FailItem(path + ".type", "An item of this type");
  }

 private:
  Json Fail(const std::string& path, std::string message, ErrorCode<400> code = kInvalidValue) {
    request_->Fail(path, std::move(message), code);
    return nullptr;
  }
  Json FailItem(const std::string& path, std::string_view what) {
    return Fail(path, absl::StrCat(std::string(what), " is not supported by this server."), "unsupported_item");
  }

  // What identifies: at most identifier_bytes_max bytes. Absent: "", an error where it is `needed`.
  std::string Id(JsonView item, std::string_view name, bool needed, const std::string& path) {
    const JsonView id = item[name];
    if (id.absent() && !needed) return "";
    if (!id.is_string() || id.string().empty() || id.string().size() > context_.limits.identifier_bytes_max) {
      Fail(absl::StrCat(path, ".", std::string(name)), "It must be a string of 1 to 256 bytes.",
           id.absent() ? ErrorCode<400>("missing_field") : kInvalidValue);
      return "";
    }
    return std::string(id.string());
  }

  // An item begins with its id, where the client gave it one, and its type.
  Json::object_t Begin(JsonView item, std::string_view type, const std::string& path,
                       std::string_view status = "completed") {
    Json::object_t read;
    std::string id = Id(item, "id", /*needed=*/false, path);
    if (!id.empty()) read.emplace_back("id", std::move(id));
    read.emplace_back("type", std::string(type));
    read.emplace_back("status", std::string(status));
    return read;
  }

  Json Part(JsonView part, std::string_view as, const std::string& path) {
    if (!part.is_object() || !part["type"].is_string()) {
      return Fail(path, "A part of a content must be an object with a 'type'.", "invalid_type");
    }
    const std::string_view type = part["type"].string();
    const bool refusal = type == "refusal";
    if (!refusal && type != "input_text" && type != "output_text" && type != "text") {
      return FailItem(path + ".type", "A content part other than text");
    }
    const JsonView text = part[refusal ? "refusal" : "text"];
    if (!text.is_string()) {
      return Fail(path + (refusal ? ".refusal" : ".text"), "A part's text must be a string.",
                  text.absent() ? ErrorCode<400>("missing_field") : ErrorCode<400>("invalid_type"));
    }
    return TextPart(as, text.string());
  }

  static Json TextPart(std::string_view as, std::string_view text) {
    Json part = {{"type", std::string(as)}, {"text", std::string(text)}};
    if (as == "output_text") {
      part["annotations"] = Json::array();
      part["logprobs"] = Json::array();
    }
    return part;
  }

  // A string, or an array of text parts.
  Json Content(JsonView content, std::string_view as, const std::string& path) {
    Json::array_t parts;
    if (content.is_string()) {
      parts.push_back(TextPart(as, content.string()));
    } else if (content.is_array()) {
      for (JsonView part = content.first(); part.valid() && !request_->failed(); part = part.next()) {
        parts.push_back(Part(part, as, absl::StrCat(path, "[", parts.size(), "]")));
      }
    } else {
      return Fail(path, absl::StrCat("'", path, "' must be a string or an array of text parts."),
                  content.absent() ? ErrorCode<400>("missing_field") : ErrorCode<400>("invalid_type"));
    }
    return parts;
  }

  Json Message(JsonView item, const std::string& path) {
    static constexpr std::array<std::string_view, 4> kRoles = {"user", "assistant", "system", "developer"};
    const JsonView role = item["role"];
    bool known = false;
    for (const std::string_view name : kRoles) known |= role.is_string() && role.string() == name;
    if (!known) {
      return Fail(path + ".role", "A message's 'role' must be user, assistant, system or developer.",
                  role.absent() ? ErrorCode<400>("missing_field") : kInvalidValue);
    }
    Json::object_t read = Begin(item, "message", path);
    read.emplace_back("role", std::string(role.string()));
    const std::string_view as = role.string() == "assistant" ? "output_text" : "input_text";
    read.emplace_back("content", Content(item["content"], as, path + ".content"));
    return read;
  }

  Json::array_t ReasoningParts(JsonView item, std::string_view member, const std::string& path) {
    Json::array_t parts;
    const JsonView list = item[member];
    const std::string at = absl::StrCat(path, ".", std::string(member));
    if (!list.absent() && !list.is_array()) Fail(at, "It must be an array.", "invalid_type");
    for (JsonView part = list.is_array() ? list.first() : JsonView(); part.valid(); part = part.next()) {
      if (part.is_object() && part["text"].is_string()) {
        parts.push_back({{"type", "reasoning_text"}, {"text", std::string(part["text"].string())}});
      } else {
        Fail(at, "It must hold objects with a 'text'.", "invalid_type");
      }
    }
    return parts;
  }

  // The text is that of `content`, or what a client was given to send back instead, or else a summary of it.
  Json Reasoning(JsonView item, const std::string& path) {
    Json::object_t read = Begin(item, "reasoning", path);
    read.emplace_back("summary", Json::array());
    Json::array_t parts = ReasoningParts(item, "content", path);
    const JsonView encrypted = item["encrypted_content"];
    std::string decoded;
    if (parts.empty() && encrypted.is_string() && absl::Base64Unescape(std::string(encrypted.string()), &decoded) &&
        IsValidUtf8(decoded) && !decoded.empty()) {
      parts.push_back({{"type", "reasoning_text"}, {"text", std::move(decoded)}});
    }
    if (parts.empty()) parts = ReasoningParts(item, "summary", path);
    read.emplace_back("content", std::move(parts));
    return read;
  }

  Json Call(JsonView item, std::string_view input, const std::string& path) {
    // One that broke off has what came until then, which need not be JSON.
    const bool cut = item["status"].is_string() && item["status"].string() == kIncomplete;
    Json::object_t read =
        Begin(item, input == "input" ? "custom_tool_call" : "function_call", path, cut ? kIncomplete : "completed");
    read.emplace_back("call_id", Id(item, "call_id", /*needed=*/true, path));
    const JsonView name = item["name"], text = item[input];
    const std::string at = absl::StrCat(path, ".", std::string(input));
    if (!name.is_string() || !IsFunctionName(name.string())) {
      return Fail(path + ".name", "A tool's 'name' must be 1 to 64 characters of [A-Za-z0-9_.-].",
                  name.absent() ? ErrorCode<400>("missing_field") : kInvalidValue);
    }
    if (!text.is_string()) {
      return Fail(at, absl::StrCat("A call's '", std::string(input), "' must be a string."),
                  text.absent() ? ErrorCode<400>("missing_field") : ErrorCode<400>("invalid_type"));
    }
    if (input == "arguments" && !text.string().empty() && !cut) CheckArguments(text.string(), at);
    read.emplace_back("name", std::string(name.string()));
    read.emplace_back(std::string(input), std::string(text.string()));
    return read;
  }

  // Templates read arguments as an object.
  void CheckArguments(std::string_view text, const std::string& path) {
    const ApiResult<Json> read = ReadPastArguments(text, budget_);
    if (read.ok()) return;
    ApiError error = read.error();
    error.param = path;
    request_->FailWith(std::move(error));
  }

  Json Output(JsonView item, const std::string& path) {
    Json::object_t read = Begin(item, item["type"].string(), path);
    read.emplace_back("call_id", Id(item, "call_id", /*needed=*/true, path));
    const JsonView output = item["output"];
    if (output.is_string()) {
      read.emplace_back("output", std::string(output.string()));
    } else {
      read.emplace_back("output", Content(output, "input_text", path + ".output"));
    }
    return read;
  }

  Json Reference(JsonView item, const std::string& path) {
    Json::object_t read;
    read.emplace_back("type", "item_reference");
    read.emplace_back("id", Id(item, "id", /*needed=*/true, path));
    return read;
  }

  ObjectReader* const request_;
  const RequestContext& context_;
  JsonBudget* const budget_;
};

// The text of a member that is a string or a list of parts.
std::string TextOf(const Json& content, std::string_view between) {
  if (content.is_string()) return static_cast<std::string>(content);
  std::string text;
  for (const Json& part : content) {
    const std::string more = part.at("text");
    if (!text.empty() && !more.empty()) text.append(between);
    text.append(more);
  }
  return text;
}

}  // namespace

Json::array_t ReadItems(ObjectReader* request, std::string_view name, const RequestContext& context,
                        JsonBudget* budget) {
  const JsonView input = request->Raw(name);
  Json::array_t items;
  if (input.is_string()) {
    Json part = {{"type", "input_text"}, {"text", std::string(input.string())}};
    items.push_back(
        {{"type", "message"}, {"status", "completed"}, {"role", "user"}, {"content", Json::array({std::move(part)})}});
    return items;
  }
  if (!input.is_array()) {
    request->Fail(name, absl::StrCat("'", std::string(name), "' must be a string or an array of items."),
                  input.absent() ? ErrorCode<400>("missing_field") : ErrorCode<400>("invalid_type"));
    return items;
  }
  if (input.size() > static_cast<uint32_t>(context.limits.messages_max)) {
    request->Fail(
        name, absl::StrCat("'", std::string(name), "' must have at most ", context.limits.messages_max, " members."));
    return items;
  }
  ItemReader reader(request, context, budget);
  for (JsonView item = input.first(); item.valid() && !request->failed(); item = item.next()) {
    items.push_back(reader.Read(item, absl::StrCat(std::string(name), "[", items.size(), "]")));
  }
  return items;
}

ItemMessages::ItemMessages(std::string_view instructions) {
  if (instructions.empty()) return;
  messages_.push_back({{"role", "system"}, {"content", nullptr}});
  lead_ = instructions;
}

const Json::array_t& ItemMessages::messages() {
  EndReasoning();
  if (lead_.has_value()) messages_.front()["content"] = *lead_;
  return messages_;
}

bool ItemMessages::EndsWith(std::string_view role) const {
  return !messages_.empty() && messages_.back().at("role") == std::string(role);
}

void ItemMessages::AddMessage(const Json& item) {
  const std::string role = item.at("role");
  std::string text = TextOf(item.at("content"), role == "assistant" ? "" : "\n");
  if (role != "assistant") EndReasoning();
  if (role == "system" || role == "developer") {
    if (messages_.size() == 1 && lead_.has_value()) {
      lead_->append("\n\n").append(text);
      return;
    }
    if (messages_.empty()) lead_ = std::exchange(text, {});
  }
  Json message = {{"role", role}, {"content", std::move(text)}};
  if (role == "assistant" && !reasoning_.empty()) message["reasoning_content"] = std::exchange(reasoning_, {});
  messages_.push_back(std::move(message));
}

void ItemMessages::AddReasoning(const Json& item) {
  const std::string text = TextOf(item.at("content"), "\n");
  if (!reasoning_.empty() && !text.empty()) reasoning_.push_back('\n');
  reasoning_.append(text);
}

// The assistant's turn is over: what it thought is no later one's.
void ItemMessages::EndReasoning() {
  if (reasoning_.empty()) return;
  if (!EndsWith("assistant")) messages_.push_back({{"role", "assistant"}, {"content", ""}});
  Json& last = messages_.back();
  const std::string before = last.value("reasoning_content", "");
  last["reasoning_content"] = before.empty() ? reasoning_ : absl::StrCat(before, "\n", reasoning_);
  reasoning_.clear();
}

void ItemMessages::AddCall(const Json& item, bool custom) {
  Json arguments = Json::object();
  if (custom) {
    arguments["input"] = item.at("input");
  } else {
    JsonBudget budget{RequestLimits()};
    ApiResult<Json> read = ReadPastArguments(static_cast<std::string>(item.at("arguments")), &budget);
    if (read.ok()) arguments = std::move(read.value());
  }
  if (!EndsWith("assistant") || !reasoning_.empty()) {
    Json message = {{"role", "assistant"}, {"content", nullptr}};
    if (!reasoning_.empty()) message["reasoning_content"] = std::exchange(reasoning_, {});
    messages_.push_back(std::move(message));
  }
  const std::string id = item.at("call_id"), name = item.at("name");
  names_.insert_or_assign(id, name);
  Json& calls = messages_.back()["tool_calls"];
  if (calls.is_null()) calls = Json::array();
  calls.push_back(
      {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", std::move(arguments)}}}});
}

bool ItemMessages::AddOutput(const Json& item) {
  const std::string id = item.at("call_id");
  const auto call = names_.find(id);
  if (call == names_.end()) return false;
  EndReasoning();
  messages_.push_back(
      {{"role", "tool"}, {"tool_call_id", id}, {"name", call->second}, {"content", TextOf(item.at("output"), "\n")}});
  return true;
}

std::optional<ApiError> ItemMessages::Add(const Json::array_t& items, std::string_view path) {
  for (size_t i = 0; i < items.size(); ++i) {
    const Json& item = items[i];
    const std::string type = item.at("type");
    if (type == "message") {
      AddMessage(item);
    } else if (type == "reasoning") {
      AddReasoning(item);
    } else if (type == "function_call" || type == "custom_tool_call") {
      AddCall(item, type == "custom_tool_call");
    } else if (!AddOutput(item)) {
      return InvalidField(absl::StrCat(std::string(path), "[", i, "].call_id"),
                          "There is no call of this id before it.");
    }
  }
  return std::nullopt;
}

}  // namespace hydrant
