#include "server/generation/embedding_prepare.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/server/generation/byte_context.h"
#include "tests/server/sessions/idle_store.h"

namespace hydrant {
namespace {

TEST(EmbeddingPrepare, KeepsEveryTokenAndAnswersNothing) {
  SessionStore sessions(IdleStore());
  ServingContext context = ByteContext(64);
  context.sessions = &sessions;
  context.request.kv.preset = KvPreset::kH2o;
  context.request.kv.budget_kind = KvBudgetKind::kTokens;
  context.request.kv.budget_tokens = 8;
  const ApiResult<PreparedGeneration> prepared =
      PrepareEmbeddings(R"({"input":["0123456789","x"],"priority":0,"cache_salt":"s"})", context);
  ASSERT_TRUE(prepared.ok()) << prepared.error().message;
  ASSERT_EQ(prepared.value().prompts.size(), 2u);
  EXPECT_FALSE(prepared.value().prompts[0].kv.policy.evicts);
  EXPECT_EQ(prepared.value().fields.max_tokens, 0);
  EXPECT_EQ(prepared.value().fields.cache_salt, "s");
  EXPECT_EQ(prepared.value().writer->id_prefix(), "embd-");
}

TEST(EmbeddingPrepare, SaysWhatIsWrongWithTheInput) {
  SessionStore sessions(IdleStore());
  ServingContext context = ByteContext(64);
  context.sessions = &sessions;
  const std::string tokens(65, 'x');
  const auto error = [&](const std::string& body, const TenantRules& rules = {}) {
    const ApiResult<PreparedGeneration> prepared = PrepareEmbeddings(body, context, rules);
    return prepared.ok() ? ApiError{} : prepared.error();
  };
  EXPECT_EQ(error(R"({"input":")" + tokens + R"("})").code, "context_length_exceeded");
  EXPECT_EQ(error(R"({"input":")" + tokens + R"("})").param, "input");
  EXPECT_EQ(error(R"({"input":")" + tokens + R"("})").message.find("prompt"), std::string::npos);
  EXPECT_EQ(error(R"({"input":"x","embd_normalize":-1})").param, "embd_normalize");
  EXPECT_EQ(error(R"({"input":"x","embd_normalize":2})").code, "");
  EXPECT_EQ(error(R"({"input":")" + tokens + R"(","truncate_prompt_tokens":64})").code, "");
  TenantRules small;
  small.kv_budget_max = 4;
  EXPECT_EQ(error(R"({"input":"01234"})", small).param, "input");
  EXPECT_EQ(error(R"({"input":"0123"})", small).code, "");
}

}  // namespace
}  // namespace hydrant
