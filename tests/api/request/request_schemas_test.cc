#include "api/request/request_schemas.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

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
  EXPECT_EQ(schemas.size(), 10u);
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
