#include "api/request/request_schemas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "api/request/chat_request.h"
#include "api/request/completion_request.h"
#include "api/request/foreign_fields.h"
#include "api/request/messages_request.h"
#include "tests/api/request/small_context.h"

namespace hydrant {
namespace {

using OrderedValue = nlohmann::ordered_json;

std::map<std::string, OrderedValue> Schemas() {
  std::map<std::string, OrderedValue> schemas;
  for (RequestSchema& schema : RequestSchemas(SmallContext())) schemas[schema.path] = std::move(schema.schema);
  return schemas;
}

TEST(RequestSchemas, HaveTheFieldsThatTheReadersRead) {
  std::map<std::string, OrderedValue> schemas = Schemas();
  EXPECT_EQ(schemas.size(), RequestReaders().size()) << "a path each";
  const OrderedValue& chat = schemas["/v1/chat/completions"];
  const OrderedValue& fields = chat["properties"];
  EXPECT_EQ(chat["required"], OrderedValue::array({"messages"}));
  EXPECT_EQ(fields["temperature"].dump(), R"({"type":"number","minimum":0,"maximum":2})");
  EXPECT_EQ(fields["n"].dump(), R"({"type":"integer","minimum":1,"maximum":16})");
  EXPECT_EQ(fields["stream"].dump(), R"({"type":"boolean"})");
  EXPECT_EQ(fields["stop_token_ids"]["items"]["maximum"], 99) << "limits are this server's";
  EXPECT_EQ(fields["stream_options"]["properties"]["include_usage"].dump(), R"({"type":"boolean"})");
  EXPECT_TRUE(fields["kv"]["properties"].contains("policy"));
  EXPECT_TRUE(fields.contains("enable_thinking"));
  EXPECT_FALSE(fields.contains("prompt"));
  EXPECT_EQ(schemas["/v1/completions"]["required"], OrderedValue::array({"prompt"}));
  EXPECT_EQ(schemas["/v1/messages"]["required"], OrderedValue::array({"max_tokens", "messages"}));
  EXPECT_EQ(schemas["/v1/messages"]["properties"]["thinking"]["properties"]["budget_tokens"]["type"], "integer");
  EXPECT_EQ(schemas["/v1/responses"]["required"], OrderedValue::array({"input"}));
  EXPECT_EQ(schemas["/v1/responses"]["properties"]["reasoning"]["properties"]["effort"]["type"], "string");
  EXPECT_EQ(schemas["/v1/embeddings"]["required"], OrderedValue::array({"input"}));
  EXPECT_EQ(schemas["/detokenize"]["required"], OrderedValue::array({"tokens"}));
  EXPECT_FALSE(schemas["/tokenize"].contains("required"));
  EXPECT_TRUE(schemas["/tokenize"]["properties"].contains("messages"));
}

TEST(RequestSchemas, HaveNoFieldThatIsRefused) {
  std::map<std::string, OrderedValue> schemas = Schemas();
  for (const char* path : {"/v1/completions", "/v1/chat/completions"}) {
    for (const ForeignField& field : ForeignFields()) {
      EXPECT_FALSE(schemas[path]["properties"].contains(std::string(field.name))) << path << " " << field.name;
    }
    for (const char* name : {"chat_template", "prompt_embeds", "use_beam_search", "forced_token_ids"}) {
      EXPECT_FALSE(schemas[path]["properties"].contains(name)) << path << " " << name;
    }
  }
}

// A field that an endpoint does nothing with, whatever it says. `path`: of the endpoint, and of those below it; "": of any.
struct IgnoredField {
  std::string_view path, field;  // field "*": whatever is not read
  std::string_view why;
};
constexpr std::string_view kOfAnswers = "speaks of an answer alone, and there is none: any request's body can be sent";
constexpr IgnoredField kIgnored[] = {
    {"/detokenize", "*", "a text is of its tokens"},
    {"/tokenize", "kv", kOfAnswers},
    {"/tokenize", "session_id", "what is sent is counted, wherever its KV is"},
    {"/tokenize", "session_append", "the same"},
    {"/v1/messages/count_tokens", "kv", kOfAnswers},
    {"/v1/messages/count_tokens", "session_id", "what is sent is counted, wherever its KV is"},
};
constexpr IgnoredField kIgnoredWithoutAnswer[] = {
    {"", "context_management", kOfAnswers},
    {"", "conversation_id", "another name of session_id, and what is sent is counted, wherever its KV is"},
    {"", "dimensions", "speaks of vectors, and there are none"},
    {"", "encoding_format", "the same"},
    {"", "include", kOfAnswers},
    {"", "include_reasoning", kOfAnswers},
    {"", "max_output_tokens", kOfAnswers},
    {"", "max_tool_calls", kOfAnswers},
    {"", "parallel_tool_calls", kOfAnswers},
    {"", "pooling", "speaks of vectors, and there are none"},
    {"", "return_token_strs", kOfAnswers},
    {"", "separate_reasoning", kOfAnswers},
    {"", "stop_sequences", kOfAnswers},
    {"", "store", kOfAnswers},
    {"", "tool_choice", kOfAnswers},
    {"", "top_logprobs", kOfAnswers},
    {"", "vllm_xargs", "may have a session_id, as above"},
};
// Fields of completions that say what a prompt is, of an endpoint without an answer as well.
constexpr std::string_view kOfPrompts[] = {"add_special_tokens", "kv",         "prompt",
                                           "session_append",     "session_id", "truncate_prompt_tokens"};

template <class List>
bool IsIn(const List& list, std::string_view path, std::string_view field) {
  return std::any_of(std::begin(list), std::end(list), [&](const IgnoredField& one) {
    const std::string below = std::string(one.path) + "/";
    return (one.path.empty() || one.path == path || path.starts_with(below)) &&
           (one.field == field || one.field == "*");
  });
}

bool Names(const ApiError& error, const std::string& field) {
  return (error.status == 400 || error.code == "model_not_found") &&
         (error.param == field || error.param.starts_with(field + ".") || error.param.starts_with(field + "["));
}

// Whether some value that is no value of any field is refused, and always by this name. `field`: "kv", "kv.policy".
bool IsHeldToSomething(const RequestReader& reader, const std::string& field) {
  for (const char* text : reader.bodies) {
    int named = 0, others = 0;
    for (const char* value : {R"({"zz":[1]})", "12345678.5", R"("é no such")"}) {
      OrderedValue body = OrderedValue::parse(text);
      body.erase("session_id");  // which goes before its other names
      const size_t dot = field.find('.');
      OrderedValue& object = dot == std::string::npos ? body : body[field.substr(0, dot)];
      object[dot == std::string::npos ? field : field.substr(dot + 1)] = OrderedValue::parse(value);
      const std::optional<ApiError> error = reader.check(body.dump(), SmallContext());
      if (error.has_value()) ++(Names(*error, field) ? named : others);
    }
    if (named > 0 && others == 0) return true;
  }
  return false;
}

// What one endpoint acts on no other one takes without a word: a value that is none of any field's is a 400 that names it.
TEST(RequestSchemas, EveryFieldOfAnyEndpointIsReadOrRefusedByEachOfThem) {
  std::map<std::string, OrderedValue> schemas = Schemas();
  const OrderedValue& of_completions = schemas["/v1/completions"]["properties"];
  std::set<std::string> fields;
  for (const auto& schema : schemas) {
    for (const auto& field : schema.second["properties"].items()) fields.insert(field.key());
  }
  std::set<std::string> ignored;
  for (const ForeignField& field : ForeignFields()) {
    if (field.ignored()) ignored.insert(std::string(field.name));  // docs/compatibility.md says why
  }
  ASSERT_GT(fields.size(), 90u);
  for (const RequestReader& reader : RequestReaders()) {
    const std::string path = reader.path;
    const OrderedValue& own = schemas[path]["properties"];
    const bool answers = own.contains("stream");
    for (const std::string& field : fields) {
      const bool of_prompt = std::find(std::begin(kOfPrompts), std::end(kOfPrompts), field) != std::end(kOfPrompts);
      if (!own.contains(field)) {
        if (ignored.contains(field) || IsIn(kIgnored, path, field)) continue;
        if (!answers && (IsIn(kIgnoredWithoutAnswer, path, field) || (of_completions.contains(field) && !of_prompt))) {
          continue;
        }
      }
      EXPECT_TRUE(IsHeldToSomething(reader, field)) << path << " " << field;
      if (!own.contains(field) || !own[field].contains("properties")) continue;
      for (const auto& member : own[field]["properties"].items()) {
        EXPECT_TRUE(IsHeldToSomething(reader, field + "." + member.key()))
            << path << " " << field << " " << member.key();
      }
    }
  }
}

// What a schema says of a field holds: a value of another type is a 400 that names it.
TEST(RequestSchemas, SayWhatTheReadersHoldTheirFieldsTo) {
  std::map<std::string, OrderedValue> schemas = Schemas();
  int probed = 0;
  for (const bool chat : {true, false}) {
    const OrderedValue& fields = schemas[chat ? "/v1/chat/completions" : "/v1/completions"]["properties"];
    for (const auto& field : fields.items()) {
      if (!field.value().contains("type")) continue;
      OrderedValue body = {{"stream", true}, {"session_id", "s"}};
      if (chat) {
        body["messages"] = {{{"role", "user"}, {"content", "x"}}};
      } else {
        body["prompt"] = "x";
      }
      body[field.key()] = field.value()["type"] == "string" ? OrderedValue(1) : OrderedValue("x");
      const std::string text = body.dump();
      std::optional<ApiError> error;
      if (chat) {
        const ApiResult<ChatRequest> parsed = ParseChatRequest(text, SmallContext());
        if (!parsed.ok()) error = parsed.error();
      } else {
        const ApiResult<CompletionRequest> parsed = ParseCompletionRequest(text, SmallContext());
        if (!parsed.ok()) error = parsed.error();
      }
      ASSERT_TRUE(error.has_value()) << text;
      EXPECT_EQ(error->param, field.key()) << text;
      ++probed;
    }
  }
  EXPECT_GT(probed, 60);
}

}  // namespace
}  // namespace hydrant
