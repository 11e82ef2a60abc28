#include "server/generation/generation_defaults.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrant {
namespace {

TEST(GenerationDefaults, TheCheckpointSetsWhatItNamesAndTheOperatorHasTheLastWord) {
  RequestContext request;
  SetDefaults({}, &request);
  EXPECT_EQ(request.temperature, 1.0);
  EXPECT_EQ(request.max_new_tokens, 0);
  SetDefaults({.temperature = 0.5, .top_k = 20, .max_new_tokens = 512}, &request);
  EXPECT_EQ(OverrideDefaults("{}", &request), "");
  EXPECT_EQ(request.temperature, 0.5);
  EXPECT_EQ(request.top_p, 1.0);
  EXPECT_EQ(request.top_k, 20);
  EXPECT_EQ(request.max_new_tokens, 512);
  EXPECT_EQ(OverrideDefaults(R"({"temperature": 0, "min_p": 0.1, "max_new_tokens": 100, "top_p": null})", &request),
            "");
  EXPECT_EQ(request.temperature, 0.0);
  EXPECT_EQ(request.min_p, 0.1);
  EXPECT_EQ(request.top_k, 20);
  EXPECT_EQ(request.max_new_tokens, 100);
}

TEST(GenerationDefaults, SaysWhatIsWrongWithAnOverride) {
  const struct {
    const char *json, *word;
  } cases[] = {
      {"", "object"},
      {"[]", "object"},
      {"{\"temperature\"", "object"},
      {R"({"max_tokens": 1})", "max_new_tokens"},
      {R"({"temperature": 3})", "temperature"},
      {R"({"top_p": 0})", "top_p"},
      {R"({"top_k": "all"})", "top_k"},
      {R"({"max_new_tokens": 0})", "max_new_tokens"},
      {R"({"max_new_tokens": 2147483648})", "max_new_tokens"},
      {R"({"repetition_penalty": 0})", "repetition_penalty"},
  };
  for (const auto& [json, word] : cases) {
    RequestContext request;
    EXPECT_NE(OverrideDefaults(json, &request).find(word), std::string::npos) << json;
  }
}

}  // namespace
}  // namespace hydrant
