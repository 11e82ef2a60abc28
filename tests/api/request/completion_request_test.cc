#include "api/request/completion_request.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/api/request/small_context.h"

namespace hydrant {
namespace {

// The request with one more member beside a valid prompt.
ApiResult<CompletionRequest> With(const std::string& member) {
  return ParseCompletionRequest("{\"prompt\":\"hi\"," + member + "}", SmallContext(2048));
}

TEST(CompletionRequestTest, DefaultsAreTheDocumentedOnes) {
  const ApiResult<CompletionRequest> parsed = ParseCompletionRequest(R"({"prompt":"hi"})", SmallContext(2048));
  ASSERT_TRUE(parsed.ok());
  const CompletionRequest& request = parsed.value();
  ASSERT_EQ(request.prompts.size(), 1u);
  EXPECT_FALSE(request.prompts[0].is_ids);
  EXPECT_EQ(request.prompts[0].text, "hi");
  EXPECT_EQ(request.max_tokens, 16);
  EXPECT_EQ(request.min_tokens, 0);
  EXPECT_EQ(request.n, 1);
  EXPECT_EQ(request.temperature, 1.0f);
  EXPECT_EQ(request.top_p, 1.0f);
  EXPECT_EQ(request.top_k, 0);
  EXPECT_EQ(request.min_p, 0.0f);
  EXPECT_EQ(request.seed, std::nullopt);
  EXPECT_TRUE(request.stop.empty());
  EXPECT_TRUE(request.stop_token_ids.empty());
  EXPECT_FALSE(request.include_stop_str_in_output);
  EXPECT_FALSE(request.ignore_eos);
  EXPECT_EQ(request.logprobs, -1);
  EXPECT_FALSE(request.echo);
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.include_usage);
  EXPECT_FALSE(request.continuous_usage_stats);
  EXPECT_EQ(request.stream_interval, 1);
  EXPECT_TRUE(request.add_special_tokens);
  EXPECT_TRUE(request.skip_special_tokens);
  EXPECT_EQ(request.truncate_prompt_tokens, std::nullopt);
  EXPECT_FALSE(request.return_token_ids);
  EXPECT_FALSE(request.kv_report);
  EXPECT_FALSE(request.kv.evicts());
  EXPECT_EQ(request.request_id, "");
}

TEST(CompletionRequestTest, NullIsAbsence) {
  std::string body = "{\"prompt\":\"hi\"";
  for (const char* name : {"model",
                           "max_tokens",
                           "min_tokens",
                           "n",
                           "best_of",
                           "temperature",
                           "top_p",
                           "top_k",
                           "min_p",
                           "seed",
                           "stop",
                           "stop_token_ids",
                           "include_stop_str_in_output",
                           "ignore_eos",
                           "logprobs",
                           "echo",
                           "stream",
                           "stream_options",
                           "stream_interval",
                           "add_special_tokens",
                           "skip_special_tokens",
                           "truncate_prompt_tokens",
                           "return_token_ids",
                           "kv_report",
                           "kv",
                           "user",
                           "request_id",
                           "presence_penalty",
                           "frequency_penalty",
                           "repetition_penalty",
                           "logit_bias",
                           "allowed_token_ids",
                           "bad_words",
                           "prompt_logprobs",
                           "response_format",
                           "tools",
                           "tool_choice",
                           "suffix",
                           "cache_salt",
                           "priority",
                           "timeout",
                           "session_id"}) {
    body += std::string(",\"") + name + "\":null";
  }
  const ApiResult<CompletionRequest> parsed = ParseCompletionRequest(body + "}", SmallContext(2048));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed.value().max_tokens, 16);
}

TEST(CompletionRequestTest, ReadsEveryField) {
  const ApiResult<CompletionRequest> parsed = ParseCompletionRequest(
      R"({"model":"smol","prompt":[[1,2],[3]],"max_tokens":7,"min_tokens":3,"n":2,"best_of":1,"temperature":0.5,
          "top_p":0.9,"top_k":40,"min_p":0.05,"seed":-9223372036854775808,"stop":["a","b"],"stop_token_ids":[5],
          "include_stop_str_in_output":true,"ignore_eos":true,"logprobs":20,"echo":true,"stream":true,
          "stream_options":{"include_usage":true,"continuous_usage_stats":true},"stream_interval":4,
          "add_special_tokens":false,"skip_special_tokens":false,"truncate_prompt_tokens":2048,"return_token_ids":true,
          "kv_report":true,"kv":{"policy":"h2o","budget":256},"user":"u","request_id":"r-1.x:Y_2"})",
      SmallContext(2048));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const CompletionRequest& request = parsed.value();
  ASSERT_EQ(request.prompts.size(), 2u);
  EXPECT_TRUE(request.prompts[0].is_ids);
  EXPECT_EQ(request.prompts[0].ids, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(request.prompts[1].ids, (std::vector<int32_t>{3}));
  EXPECT_EQ(request.n, 2);
  EXPECT_EQ(request.max_tokens, 7);
  EXPECT_EQ(request.min_tokens, 3);
  EXPECT_EQ(request.temperature, 0.5f);
  EXPECT_EQ(request.top_p, 0.9f);
  EXPECT_EQ(request.top_k, 40);
  EXPECT_EQ(request.min_p, 0.05f);
  EXPECT_EQ(request.seed, std::numeric_limits<int64_t>::min());
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.stop_token_ids, (std::vector<int32_t>{5}));
  EXPECT_TRUE(request.include_stop_str_in_output);
  EXPECT_TRUE(request.ignore_eos);
  EXPECT_EQ(request.logprobs, 20);
  EXPECT_TRUE(request.echo);
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.include_usage);
  EXPECT_TRUE(request.continuous_usage_stats);
  EXPECT_EQ(request.stream_interval, 4);
  EXPECT_FALSE(request.add_special_tokens);
  EXPECT_FALSE(request.skip_special_tokens);
  EXPECT_EQ(request.truncate_prompt_tokens, 2048);
  EXPECT_TRUE(request.return_token_ids);
  EXPECT_TRUE(request.kv_report);
  EXPECT_EQ(request.kv.preset, KvPreset::kH2o);
  EXPECT_EQ(request.request_id, "r-1.x:Y_2");
}

TEST(CompletionRequestTest, PromptHasFourShapes) {
  struct Case {
    const char* prompt;
    size_t prompts;
    bool ids;
  };
  const Case cases[] = {
      {R"("hi")", 1, false}, {R"(["hi","ho"])", 2, false}, {"[1]", 1, true},
      {"[0,99]", 1, true},   {"[[1],[2,3]]", 2, true},     {R"("a\u0000b")", 1, false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.prompt);
    const ApiResult<CompletionRequest> parsed =
        ParseCompletionRequest("{\"prompt\":" + std::string(c.prompt) + "}", SmallContext(2048));
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    ASSERT_EQ(parsed.value().prompts.size(), c.prompts);
    for (const RequestPrompt& prompt : parsed.value().prompts) EXPECT_EQ(prompt.is_ids, c.ids);
  }
}

TEST(CompletionRequestTest, WrongPromptsSayHow) {
  struct Case {
    const char* body;
    const char* code;
  };
  const Case cases[] = {
      {R"({})", "missing_field"},
      {R"({"prompt":null})", "missing_field"},
      {R"({"prompt":""})", "empty_prompt"},
      {R"({"prompt":[]})", "empty_prompt"},
      {R"({"prompt":[""]})", "empty_prompt"},
      {R"({"prompt":["a",""]})", "empty_prompt"},
      {R"({"prompt":[[]]})", "empty_prompt"},
      {R"({"prompt":[[1],[]]})", "empty_prompt"},
      {R"({"prompt":5})", "invalid_type"},
      {R"({"prompt":{}})", "invalid_type"},
      {R"({"prompt":true})", "invalid_type"},
      {R"({"prompt":["a",1]})", "invalid_type"},
      {R"({"prompt":["a",null]})", "invalid_type"},
      {R"({"prompt":[[1],2]})", "invalid_type"},
      {R"({"prompt":[[1],"a"]})", "invalid_type"},
      {R"({"prompt":[-1]})", "token_id_out_of_range"},
      {R"({"prompt":[100]})", "token_id_out_of_range"},
      {R"({"prompt":[2147483648]})", "token_id_out_of_range"},
      {R"({"prompt":[1.5]})", "token_id_out_of_range"},
      {R"({"prompt":[1,"5"]})", "token_id_out_of_range"},
      {R"({"prompt":[null]})", "token_id_out_of_range"},
      {R"({"prompt":[true]})", "token_id_out_of_range"},
      {R"({"prompt":[[1,-1]]})", "token_id_out_of_range"},
      {R"({"prompt":[["5"]]})", "token_id_out_of_range"},
      {R"({"prompt":[[[1]]]})", "token_id_out_of_range"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.body);
    const ApiResult<CompletionRequest> parsed = ParseCompletionRequest(c.body, SmallContext(2048));
    ASSERT_FALSE(parsed.ok());
    EXPECT_EQ(parsed.error().status, 400);
    EXPECT_EQ(parsed.error().param, "prompt");
    EXPECT_EQ(parsed.error().code, c.code);
  }
}

TEST(CompletionRequestTest, PromptsEndAt1024) {
  for (const int count : {1, 1023, 1024, 1025}) {
    std::string body = R"({"prompt":["a")";
    for (int i = 1; i < count; ++i) body += R"(,"a")";
    EXPECT_EQ(ParseCompletionRequest(body + "]}", SmallContext(2048)).ok(), count <= 1024) << count;
  }
}

TEST(CompletionRequestTest, ValuesInsideTheirRangesPass) {
  for (const char* member : {R"("max_tokens":1)",
                             R"("max_tokens":2147483647)",
                             R"("max_completion_tokens":1)",
                             R"("max_completion_tokens":5,"max_tokens":5)",
                             R"("max_completion_tokens":5,"max_tokens":null)",
                             R"("max_tokens":0,"echo":true)",
                             R"("max_tokens":0,"echo":true,"logprobs":1)",
                             R"("n":1)",
                             R"("n":16)",
                             R"("n":3,"best_of":3)",
                             R"("n":3,"best_of":1)",
                             R"("best_of":1,"stream":true)",
                             R"("temperature":0)",
                             R"("temperature":2)",
                             R"("temperature":2.0)",
                             R"("top_p":1)",
                             R"("top_p":1e-300)",
                             R"("top_k":-1)",
                             R"("top_k":0)",
                             R"("top_k":2147483647)",
                             R"("min_p":0)",
                             R"("min_p":1)",
                             R"("seed":9223372036854775807)",
                             R"("seed":-1)",
                             R"("stop":"x")",
                             R"("stop":[])",
                             R"("stop":"\u0000")",
                             R"("logprobs":0)",
                             R"("logprobs":20)",
                             R"("min_tokens":16)",
                             R"("stream":true,"stream_options":{})",
                             R"("stream":true,"stream_options":{"include_usage":null})",
                             R"("stream":false,"stream_options":null)",
                             R"("truncate_prompt_tokens":1)",
                             R"("truncate_prompt_tokens":-1)",
                             R"("user":"")",
                             R"("foo":{"bar":[1,2]})",
                             R"("session_id":"abc")",
                             R"("best_of":null)",
                             R"("suffix":null)",
                             R"("prompt_logprobs":0)",
                             R"("prompt_logprobs":20)",
                             R"("spaces_between_special_tokens":false)",
                             R"("cache_salt":"s")"}) {
    const ApiResult<CompletionRequest> parsed = With(member);
    EXPECT_TRUE(parsed.ok()) << member << ": " << parsed.error().message;
  }
}

TEST(CompletionRequestTest, EveryViolationNamesItsField) {
  const std::string long_stop(257, 'x');
  const std::string long_user(257, 'x');
  struct Case {
    std::string member;
    const char* param;
  };
  const Case cases[] = {
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":-1)", "max_tokens"},
      {R"("max_tokens":2147483648)", "max_tokens"},
      {R"("max_tokens":9223372036854775808)", "max_tokens"},
      {R"("max_tokens":1.5)", "max_tokens"},
      {R"("max_tokens":16.0)", "max_tokens"},
      {R"("max_tokens":"16")", "max_tokens"},
      {R"("max_tokens":true)", "max_tokens"},
      {R"("max_tokens":[])", "max_tokens"},
      {R"("max_tokens":-1,"echo":true)", "max_tokens"},
      {R"("max_completion_tokens":0)", "max_completion_tokens"},
      {R"("max_completion_tokens":5,"max_tokens":6)", "max_completion_tokens"},
      {R"("max_completion_tokens":5,"min_tokens":6)", "min_tokens"},
      {R"("min_tokens":-1)", "min_tokens"},
      {R"("min_tokens":17)", "min_tokens"},
      {R"("min_tokens":8,"max_tokens":7)", "min_tokens"},
      {R"("n":0)", "n"},
      {R"("n":-1)", "n"},
      {R"("n":17)", "n"},
      {R"("n":1000000)", "n"},
      {R"("n":1000000000)", "n"},
      {R"("n":1.0)", "n"},
      {R"("n":true)", "n"},
      {R"("best_of":1000000)", "best_of"},
      {R"("best_of":0)", "best_of"},
      {R"("best_of":2)", "best_of"},
      {R"("best_of":2,"n":3)", "best_of"},
      {R"("best_of":2,"n":2,"stream":true)", "best_of"},
      {R"("temperature":-0.1)", "temperature"},
      {R"("temperature":2.1)", "temperature"},
      {R"("temperature":1e38)", "temperature"},
      {R"("temperature":"1")", "temperature"},
      {R"("temperature":true)", "temperature"},
      {R"("top_p":0)", "top_p"},
      {R"("top_p":-1)", "top_p"},
      {R"("top_p":1.0001)", "top_p"},
      {R"("top_k":-2)", "top_k"},
      {R"("top_k":1.5)", "top_k"},
      {R"("top_k":2147483648)", "top_k"},
      {R"("min_p":-0.1)", "min_p"},
      {R"("min_p":1.1)", "min_p"},
      {R"("typical_p":1.1)", "typical_p"},
      {R"("seed":9223372036854775808)", "seed"},
      {R"("seed":1.5)", "seed"},
      {R"("seed":"1")", "seed"},
      {R"("stop":"")", "stop"},
      {R"("stop":["a",""])", "stop"},
      {R"("stop":[1])", "stop"},
      {R"("stop":5)", "stop"},
      {"\"stop\":\"" + long_stop + "\"", "stop"},
      {R"("stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])", "stop"},
      {R"("stop_token_ids":[100])", "stop_token_ids"},
      {R"("stop_token_ids":[-1])", "stop_token_ids"},
      {R"("stop_token_ids":5)", "stop_token_ids"},
      {R"("include_stop_str_in_output":1)", "include_stop_str_in_output"},
      {R"("ignore_eos":"yes")", "ignore_eos"},
      {R"("logprobs":21)", "logprobs"},
      {R"("logprobs":-1)", "logprobs"},
      {R"("logprobs":true)", "logprobs"},
      {R"("logprobs":1.0)", "logprobs"},
      {R"("echo":1)", "echo"},
      {R"("stream":1)", "stream"},
      {R"("stream":"true")", "stream"},
      {R"("stream_options":{})", "stream_options"},
      {R"("stream":false,"stream_options":{"include_usage":true})", "stream_options"},
      {R"("stream":true,"stream_options":[])", "stream_options"},
      {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
      {R"("stream":true,"stream_options":{"continuous_usage_stats":"x"})", "stream_options.continuous_usage_stats"},
      {R"("stream_interval":0)", "stream_interval"},
      {R"("add_special_tokens":0)", "add_special_tokens"},
      {R"("skip_special_tokens":0)", "skip_special_tokens"},
      {R"("truncate_prompt_tokens":0)", "truncate_prompt_tokens"},
      {R"("truncate_prompt_tokens":-2)", "truncate_prompt_tokens"},
      {R"("truncate_prompt_tokens":2049)", "truncate_prompt_tokens"},
      {R"("return_token_ids":1)", "return_token_ids"},
      {R"("kv_report":"x")", "kv_report"},
      {R"("kv":{"policy":"h2o","budget":2049})", "kv.budget"},
      {R"("kv":{"policy":"nope"})", "kv.policy"},
      {R"("user":1)", "user"},
      {R"("user":"a\u0000b")", "user"},
      {"\"user\":\"" + long_user + "\"", "user"},
      {R"("request_id":"")", "request_id"},
      {R"("request_id":"a b")", "request_id"},
      {R"("request_id":"a\r\nX: y")", "request_id"},
      {R"("request_id":"é")", "request_id"},
      {R"("model":{})", "model"},
      {R"("model":"a\u0000")", "model"},
      {R"("presence_penalty":2.5)", "presence_penalty"},
      {R"("prompt_logprobs":21)", "prompt_logprobs"},
      {R"("prompt_logprobs":-1)", "prompt_logprobs"},
      {R"("prompt_logprobs":0,"stream":true)", "prompt_logprobs"},
      {R"("prompt_logprobs":0,"session_id":"a","session_append":true)", "prompt_logprobs"},
      {R"("return_tokens_as_token_ids":1)", "return_tokens_as_token_ids"},
      {R"("spaces_between_special_tokens":1)", "spaces_between_special_tokens"},
      {R"("response_format":{"type":"json_object"})", "response_format"},
      {R"("cache_salt":5)", "cache_salt"},
      {R"("priority":1)", "priority"},
      {R"("priority":-1)", "priority"},
      {R"("priority":-2147483648)", "priority"},
      {R"("priority":1e3)", "priority"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.member);
    const ApiResult<CompletionRequest> parsed = With(c.member);
    ASSERT_FALSE(parsed.ok());
    EXPECT_EQ(parsed.error().status, 400);
    EXPECT_EQ(parsed.error().type, ErrorType::kInvalidRequest);
    EXPECT_EQ(parsed.error().param, c.param);
    EXPECT_FALSE(parsed.error().code.empty());
  }
}

TEST(CompletionRequestTest, AnUnknownModelIs404) {
  const ApiResult<CompletionRequest> parsed = With(R"("model":"gpt-4")");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().status, 404);
  EXPECT_EQ(parsed.error().code, "model_not_found");
  EXPECT_EQ(parsed.error().message.find("gpt-4"), std::string::npos);
}

TEST(CompletionRequestTest, BodiesThatAreNoObjectsSaySo) {
  for (const char* body : {"null", "[]", "\"x\"", "1", "true"}) {
    const ApiResult<CompletionRequest> parsed = ParseCompletionRequest(body, SmallContext(2048));
    ASSERT_FALSE(parsed.ok()) << body;
    EXPECT_EQ(parsed.error().code, "invalid_json") << body;
    EXPECT_NE(parsed.error().message.find("object"), std::string::npos) << body;
  }
}

TEST(CompletionRequestTest, ErrorsNeverHoldInput) {
  for (const char* body : {R"({"prompt":"secret","n":"secret"})", R"({"prompt":"secret","stop":["secret",""]})",
                           R"({"prompt":"secret","kv":{"policy":"secret"}})", R"({"prompt":"secret","model":"secret"})",
                           R"({"prompt":"secret","user":"secret\u0000"})", R"({"prompt":"secret)",
                           R"({"prompt":"secret","response_format":{"type":"secret"}})",
                           R"({"prompt":"secret","logit_bias":{"secret":1}})"}) {
    const ApiResult<CompletionRequest> parsed = ParseCompletionRequest(body, SmallContext(2048));
    ASSERT_FALSE(parsed.ok()) << body;
    EXPECT_EQ(ErrorJson(parsed.error()).find("secret"), std::string::npos) << body;
  }
}

TEST(CompletionRequestTest, TinyValuesStayUsableAsFloats) {
  EXPECT_GT(With(R"("top_p":1e-300)").value().top_p, 0.0f);
  EXPECT_EQ(With(R"("temperature":1e-300)").value().temperature, 0.0f);
  EXPECT_EQ(With(R"("temperature":9.9e-7)").value().temperature, 0.0f);
  EXPECT_GT(With(R"("temperature":1e-6)").value().temperature, 0.0f);
}

TEST(CompletionRequestTest, GenerationConfigGivesTheDefaults) {
  RequestContext context = SmallContext(2048);
  context.temperature = 0.2;
  context.top_p = 0.9;
  context.top_k = 50;
  context.min_p = 0.1;
  context.kv.preset = KvPreset::kH2o;
  context.kv.budget_kind = KvBudgetKind::kTokens;
  context.kv.budget_tokens = 256;
  const ApiResult<CompletionRequest> parsed = ParseCompletionRequest(R"({"prompt":"hi","top_k":0})", context);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.value().temperature, 0.2f);
  EXPECT_EQ(parsed.value().top_p, 0.9f);
  EXPECT_EQ(parsed.value().top_k, 0);
  EXPECT_EQ(parsed.value().min_p, 0.1f);
  EXPECT_EQ(parsed.value().kv.budget_tokens, 256);
  EXPECT_FALSE(ParseCompletionRequest(R"({"prompt":"hi","kv":{"policy":"full"}})", context).value().kv.evicts());
}

TEST(CompletionRequestTest, TheBudgetHasATenantsMaximum) {
  RequestContext context = SmallContext(2048);
  context.kv_budget_max = 128;
  EXPECT_TRUE(ParseCompletionRequest(R"({"prompt":"hi","kv":{"budget":128}})", context).ok());
  EXPECT_FALSE(ParseCompletionRequest(R"({"prompt":"hi","kv":{"budget":129}})", context).ok());
}

TEST(CompletionRequestTest, ATimeoutIsTheRequestsOwnUpToItsLimit) {
  RequestContext context = SmallContext(2048);
  const auto read = [&](const std::string& member, std::optional<std::string> header) {
    context.headers.timeout = std::move(header);
    return ParseCompletionRequest("{\"prompt\":\"hi\"" + member + "}", context);
  };
  EXPECT_EQ(read("", std::nullopt).value().time_limit.seconds, 0);
  EXPECT_EQ(read(R"(,"timeout":1e7)", std::nullopt).value().time_limit.seconds, 1e7);
  context.time_limit = {8, "--request-timeout-s"};
  EXPECT_EQ(read("", std::nullopt).value().time_limit.seconds, 8);
  EXPECT_EQ(read(R"(,"timeout":0.5)", "2").value().time_limit.seconds, 0.5) << "the body goes first";
  EXPECT_EQ(read(R"(,"timeout":null)", "2.5").value().time_limit.seconds, 2.5);
  EXPECT_EQ(read("", "8").value().time_limit.name, std::string("X-Request-Timeout"));
  const struct {
    std::string member;
    std::optional<std::string> header;
    std::string param;
  } cases[] = {
      {R"(,"timeout":0)", {}, "timeout"},    {R"(,"timeout":-1)", {}, "timeout"},
      {R"(,"timeout":"1")", {}, "timeout"},  {R"(,"timeout":true)", {}, "timeout"},
      {R"(,"timeout":8.01)", {}, "timeout"}, {R"(,"timeout":1e999)", {}, ""},
      {"", "0", "X-Request-Timeout"},        {"", "-1", "X-Request-Timeout"},
      {"", "", "X-Request-Timeout"},         {"", "5s", "X-Request-Timeout"},
      {"", "nan", "X-Request-Timeout"},      {"", "inf", "X-Request-Timeout"},
      {"", "9", "X-Request-Timeout"},        {"", "1e8", "X-Request-Timeout"},
  };
  for (const auto& test : cases) {
    const ApiResult<CompletionRequest> parsed = read(test.member, test.header);
    ASSERT_FALSE(parsed.ok()) << test.member << test.header.value_or("");
    EXPECT_EQ(parsed.error().status, 400);
    if (!test.param.empty()) {
      EXPECT_EQ(parsed.error().param, test.param) << test.member << test.header.value_or("");
    }
  }
  EXPECT_EQ(read(R"(,"timeout":9)", {}).error().message,
            "'timeout' may be at most 8 seconds here (--request-timeout-s).");
}

TEST(CompletionRequestTest, ThousandsOfUnknownMembersAreCheapAndIgnored) {
  std::string body = "{\"prompt\":\"hi\"";
  for (int i = 0; i < 100'000; ++i) body += ",\"k" + std::to_string(i) + "\":0";
  EXPECT_TRUE(ParseCompletionRequest(body + "}", SmallContext(2048)).ok());
}

TEST(CompletionRequestTest, ForcedTokensNeedADebuggingServer) {
  const std::string body = R"({"prompt":"hi","forced_token_ids":[1,99]})";
  const ApiResult<CompletionRequest> refused = ParseCompletionRequest(body, SmallContext(2048));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().param, "forced_token_ids");
  RequestContext debugging = SmallContext(2048);
  debugging.debug_fields = true;
  const ApiResult<CompletionRequest> parsed = ParseCompletionRequest(body, debugging);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.value().forced_ids, (std::vector<int32_t>{1, 99}));
  EXPECT_FALSE(ParseCompletionRequest(R"({"prompt":"hi","forced_token_ids":[100]})", debugging).ok());
}

}  // namespace
}  // namespace hydrant
