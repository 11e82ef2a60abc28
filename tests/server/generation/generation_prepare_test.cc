#include "server/generation/generation_prepare.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/server/generation/byte_context.h"
#include "tests/server/sessions/idle_store.h"

namespace hydrant {
namespace {

TEST(PrepareCompletion, AddedAndTypedSpecialTokensAreKeptApart) {
  ServingContext context = ByteContext(100);
  const auto tokenizer = std::make_shared<ByteTokenizer>();
  tokenizer->add_bos = true;
  context.tokenizer = tokenizer;

  const PreparedPrompt with = PrepareCompletion(R"({"prompt":"hi"})", context).value().prompts[0];
  EXPECT_EQ(with.ids.front(), ByteTokenizer::kBos);
  EXPECT_EQ(with.added_special_tokens, 1);
  EXPECT_TRUE(with.show_specials);
  const PreparedPrompt without =
      PrepareCompletion(R"({"prompt":"hi","add_special_tokens":false})", context).value().prompts[0];
  EXPECT_EQ(without.ids, ByteIds("hi"));
  EXPECT_EQ(without.added_special_tokens, 0);
  const PreparedPrompt ids = PrepareCompletion(R"({"prompt":[257,104]})", context).value().prompts[0];
  EXPECT_EQ(ids.added_special_tokens, 0);
  EXPECT_FALSE(ids.show_specials);
  const PreparedPrompt cut =
      PrepareCompletion(R"({"prompt":"abcdef","truncate_prompt_tokens":3})", context).value().prompts[0];
  EXPECT_EQ(cut.ids, (std::vector<int32_t>{ByteTokenizer::kBos, 'e', 'f'}));

  tokenizer->add_bos = false;
  const PreparedPrompt typed =
      PrepareCompletion(R"({"prompt":"<bos>abcd","truncate_prompt_tokens":2})", context).value().prompts[0];
  EXPECT_EQ(typed.added_special_tokens, 0) << "the client typed it: an echo shows it";
  EXPECT_EQ(typed.ids, ByteIds("cd")) << "and a truncation drops it";
}

// Stops where it is asked to, and counts what it was given to encode.
class CountingTokenizer : public ByteTokenizer {
 public:
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options) const override {
    text = text.substr(0, options.ids_max < text.size() ? options.ids_max + 1 : text.size());
    bytes += text.size();
    return ByteTokenizer::Encode(text, options);
  }
  size_t ids_min(std::string_view text) const override { return knows_least ? text.size() : 0; }

  bool knows_least = false;
  mutable size_t bytes = 0;
};

TEST(PrepareCompletion, ATruncatedTextHasALengthToo) {
  ServingContext context = ByteContext(100);
  const auto tokenizer = std::make_shared<CountingTokenizer>();
  context.tokenizer = tokenizer;
  const auto prepare = [&](const std::string& prompt) {
    return PrepareCompletion(R"({"truncate_prompt_tokens":3,"prompt":)" + prompt + "}", context);
  };
  const std::string most(static_cast<size_t>(TextBytesMax(100)) - 3, 'a');
  const ApiResult<PreparedGeneration> whole = prepare("\"" + most + "bcd\"");
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole.value().prompts[0].ids, ByteIds("bcd"));
  tokenizer->bytes = 0;
  for (const std::string& prompt : {"\"" + most + "bcde\"", "[\"abcd\",\"" + most + "\"]"}) {
    const ApiResult<PreparedGeneration> longer = prepare(prompt);
    ASSERT_FALSE(longer.ok());
    EXPECT_EQ(longer.error().param, "truncate_prompt_tokens");
  }
  EXPECT_EQ(tokenizer->bytes, 0u) << "refused by its length alone";
}

// A prompt that is cut to what fits leaves the answer its place.
TEST(PrepareCompletion, AsManyTokensAreKeptAsFit) {
  const ServingContext context = ByteContext(100);
  const std::string text(120, 'a');
  const auto kept = [&](const std::string& members) -> size_t {
    const ApiResult<PreparedGeneration> prepared =
        PrepareCompletion(R"({"truncate_prompt_tokens":-1,)" + members + R"("prompt":")" + text + "\"}", context);
    EXPECT_TRUE(prepared.ok()) << members << prepared.error().message;
    return prepared.ok() ? prepared.value().prompts[0].ids.size() : 0;
  };
  EXPECT_EQ(kept(""), 84u);
  EXPECT_EQ(kept(R"("max_tokens":10,)"), 90u);
  EXPECT_EQ(kept(R"("max_tokens":99,)"), 1u);
  EXPECT_EQ(kept(R"("max_tokens":0,"echo":true,)"), 100u);
  EXPECT_EQ(kept(R"("kv":{"policy":"window","budget":16,"position":"rolling","prefill":"budgeted"},)"), 100u);
  PreparedGeneration rest;
  rest.fields.max_tokens = kRestOfContext;
  rest.fields.truncate_prompt_tokens = kRestOfContext;
  EXPECT_EQ(PreparePrompts({{.is_ids = false, .text = text, .ids = {}}}, context, TenantRules(), &rest), std::nullopt);
  EXPECT_EQ(rest.prompts[0].ids.size(), 99u);
  EXPECT_EQ(rest.fields.max_tokens, 1);
}

TEST(PrepareCompletion, ARollingTextIsTokenizedNoFurtherThanItMayBeComputed) {
  ServingContext context = ByteContext(400);
  const auto tokenizer = std::make_shared<CountingTokenizer>();
  context.tokenizer = tokenizer;
  const int64_t most = context.limits.request_tokens_max();
  const auto prepare = [&](int64_t letters, int n) {
    return PrepareCompletion(
        R"({"max_tokens":1,"kv":{"policy":"window","budget":16,"position":"rolling","prefill":"budgeted"},"n":)" +
            std::to_string(n) + R"(,"prompt":")" + std::string(static_cast<size_t>(letters), 'a') + "\"}",
        context);
  };
  const ApiResult<PreparedGeneration> fits = prepare(most, 1);
  ASSERT_TRUE(fits.ok()) << fits.error().message;
  EXPECT_EQ(fits.value().prompts[0].ids.size(), static_cast<size_t>(most)) << "no token is missing";
  EXPECT_TRUE(prepare(most / 2, 2).ok());
  for (const bool knows_least : {false, true}) {
    tokenizer->knows_least = knows_least;
    for (const int n : {1, 2}) {
      tokenizer->bytes = 0;
      const ApiResult<PreparedGeneration> longer = prepare(1'000'000, n);
      ASSERT_FALSE(longer.ok());
      EXPECT_EQ(longer.error().param, "prompt");
      EXPECT_LE(tokenizer->bytes, knows_least ? 0u : static_cast<size_t>(most / n + 1));
    }
  }
}

TEST(PrepareCompletion, TheSmallerTimeLimitCounts) {
  const struct {
    double server;
    double tenant;
    double seconds;
    std::string name;
  } cases[] = {
      {0, 0, 0, "--request-timeout-s"}, {5, 0, 5, "--request-timeout-s"}, {0, 4, 4, "request_seconds_max"},
      {5, 4, 4, "request_seconds_max"}, {4, 5, 4, "--request-timeout-s"},
  };
  for (const auto& test : cases) {
    ServingContext context = ByteContext(1000);
    context.limits.request_timeout_s = test.server;
    TenantRules rules;
    rules.seconds_max = test.tenant;
    const TimeLimit limit = PrepareCompletion(R"({"prompt":"a"})", context, rules).value().fields.time_limit;
    EXPECT_EQ(limit.seconds, test.seconds) << test.server << ", " << test.tenant;
    EXPECT_EQ(limit.name, test.name) << test.server << ", " << test.tenant;
  }
}

TEST(PrepareCompletion, ATenantHasDefaultsAndMaximaOfItsOwn) {
  ServingContext context = ByteContext(1000);
  TenantRules rules;
  rules.kv.emplace();
  rules.kv->preset = KvPreset::kH2o;
  rules.kv->budget_kind = KvBudgetKind::kTokens;
  rules.kv->budget_tokens = 16;
  rules.kv_budget_max = 32;
  rules.priority_max = 3;
  rules.blocks_max = 4;
  const auto prepare = [&](const std::string& members) {
    return PrepareCompletion(R"({"prompt":"0123456789012345678901234567890123456789","max_tokens":4)" + members + "}",
                             context, rules);
  };
  EXPECT_EQ(prepare("").value().prompts[0].kv.budget.keep, 16);
  EXPECT_EQ(prepare(R"(,"kv":{"budget":32})").value().prompts[0].kv.budget.keep, 32);
  EXPECT_EQ(prepare(R"(,"priority":3)").value().fields.priority, 3);
  const struct {
    const char* name;
    const char* members;
    const char* param;
  } cases[] = {
      {"budget in tokens", R"(,"kv":{"budget":33})", "kv.budget"},
      {"budget as a part", R"(,"kv":{"budget":{"ratio_of_prompt":0.9}})", "kv.budget"},
      {"everything kept", R"(,"kv":{"policy":"full"})", "kv.budget"},
      {"priority", R"(,"priority":4)", "priority"},
  };
  for (const auto& test : cases) {
    const ApiResult<PreparedGeneration> prepared = prepare(test.members);
    ASSERT_FALSE(prepared.ok()) << test.name;
    EXPECT_EQ(prepared.error().param, test.param) << test.name;
  }
  rules.blocks_max = 2;
  EXPECT_EQ(prepare("").error().code, "kv_capacity_exceeded") << "forty tokens are three blocks";
}

TEST(PrepareCompletion, ARequestIsBoundedAsAWhole) {
  ServingContext context = ByteContext(100);
  context.limits.n_max = 3;
  context.limits.context_max = 20;
  ASSERT_EQ(context.limits.request_tokens_max(), 60);
  context.limits.sequences_max = 8;
  context.limits.waiting_sequences_max = 0;
  context.limits.logprobs_kept_max = 100;
  const struct {
    const char* name;
    const char* body;
    const char* param;  // of the refusal; "" = accepted
  } cases[] = {
      {"60 tokens", R"({"prompt":["0123456789","0123456789"],"n":3})", ""},
      {"63 tokens", R"({"prompt":["0123456789","0123456789+"],"n":3})", "prompt"},
      {"8 sequences", R"({"prompt":["a","b"],"n":4})", ""},
      {"9 sequences", R"({"prompt":["a","b","c"],"n":3})", "prompt"},
      {"100 kept", R"({"prompt":"a","max_tokens":25,"n":2,"logprobs":1})", ""},
      {"102 kept", R"({"prompt":"a","max_tokens":17,"n":2,"logprobs":2})", "logprobs"},
      {"102 streamed", R"({"prompt":"a","max_tokens":17,"n":2,"logprobs":2,"stream":true})", ""},
      {"100 of prompts",
       R"({"prompt":["0123456789","0123456789"],"max_tokens":1,"logprobs":4,"stream":true,"echo":true})", ""},
      {"100 of prompt_logprobs", R"({"prompt":"0123456789","n":2,"prompt_logprobs":4})", ""},
      {"120 of prompt_logprobs", R"({"prompt":"0123456789","n":2,"prompt_logprobs":5})", "prompt_logprobs"},
      {"105 of prompts",
       R"({"prompt":["0123456789","0123456789+"],"max_tokens":1,"logprobs":4,"stream":true,"echo":true})", "logprobs"},
  };
  for (const auto& test : cases) {
    const ApiResult<PreparedGeneration> prepared = PrepareCompletion(test.body, context);
    EXPECT_EQ(prepared.ok() ? "" : prepared.error().param, test.param) << test.name;
    EXPECT_TRUE(prepared.ok() || prepared.error().status == 400) << test.name;
  }
}

TEST(PrepareCompletion, TheContextIsABoundary) {
  ServingContext context = ByteContext(32);
  for (const int prompt : {1, 15, 16, 17, 31}) {
    for (const int extra : {0, 1}) {
      const std::string body = R"({"prompt":")" + std::string(static_cast<size_t>(prompt), 'x') + R"(","max_tokens":)" +
                               std::to_string(32 - prompt + extra) + "}";
      EXPECT_EQ(PrepareCompletion(body, context).ok(), extra == 0) << body;
    }
  }
}

// Sessions come from other servers, and go on with what their policy came to there.
TEST(PrepareCompletion, ASessionThatPinsGoesOnOnlyWhereTheDeviceDoes) {
  ServingContext context = ByteContext(400);
  SessionStore sessions(IdleStore());
  context.sessions = &sessions;
  ApiResult<PreparedGeneration> began =
      PrepareCompletion(R"({"session_id":"s","prompt":"hi","kv":{"policy":"auto","budget":64}})", context);
  ASSERT_TRUE(began.ok()) << began.error().message;
  PreparedGeneration first = std::move(began.value());
  SessionPast past;
  past.tokens = first.prompts[0].ids.vector();
  past.tokens.push_back('!');
  past.computed = static_cast<int32_t>(past.tokens.size()) - 1;
  past.spec = first.prompts[0].spec;
  past.kv = first.prompts[0].kv;
  first.turn->End(std::move(past));
  const std::string next = R"({"session_id":"s","prompt":"hi! And?"})";
  {
    const ApiResult<PreparedGeneration> goes_on = PrepareCompletion(next, context);
    ASSERT_TRUE(goes_on.ok()) << goes_on.error().message;
    EXPECT_TRUE(goes_on.value().prompts[0].continues);
    EXPECT_EQ(goes_on.value().prompts[0].kv.policy.pin_rows, 64);
  }
  context.kv.pins = false;
  const ApiResult<PreparedGeneration> refused = PrepareCompletion(next, context);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().param, "kv.policy");
  EXPECT_EQ(refused.error().status, 400);
}

TEST(PreparePrompts, TheRestOfTheContextIsWhatThePromptLeaves) {
  const ServingContext context = ByteContext(32);
  for (const int prompt : {1, 15, 16, 17, 31, 32}) {
    PreparedGeneration prepared;
    prepared.fields.max_tokens = kRestOfContext;
    prepared.fields.min_tokens = 20;
    const std::optional<ApiError> error = PreparePrompts(
        {{.is_ids = false, .text = std::string(static_cast<size_t>(prompt), 'x'), .ids = {}}}, context, {}, &prepared);
    ASSERT_EQ(error.has_value(), prompt >= 15) << prompt;
    if (error.has_value()) {
      EXPECT_EQ(error->param, prompt == 32 ? "prompt" : "min_tokens");
      continue;
    }
    EXPECT_EQ(prepared.fields.max_tokens, 32 - prompt);
    EXPECT_EQ(prepared.fields.min_tokens, 20);
  }
}

TEST(PreparePrompts, AnAnswerThatDoesNotSayHasTheDefaultLength) {
  const auto longest = [](int32_t cap, int32_t max_tokens, int32_t min_tokens = 0) {
    ServingContext context = ByteContext(1000);
    context.request.max_new_tokens = cap;
    PreparedGeneration prepared;
    prepared.fields.max_tokens = max_tokens;
    prepared.fields.min_tokens = min_tokens;
    EXPECT_FALSE(
        PreparePrompts({{.is_ids = false, .text = "0123456789", .ids = {}}}, context, {}, &prepared).has_value());
    return prepared.fields.max_tokens;
  };
  EXPECT_EQ(longest(0, kRestOfContext), 990);
  EXPECT_EQ(longest(100, kRestOfContext), 100);
  EXPECT_EQ(longest(5000, kRestOfContext), 990);
  EXPECT_EQ(longest(100, kRestOfContext, 200), 200) << "no more than what has to be";
  EXPECT_EQ(longest(100, 500), 500) << "no limit for who says";
}

TEST(PreparePrompts, ADefaultLengthIsNeverWhatARequestIsRefusedFor) {
  const auto longest = [](ServingContext context, const TenantRules& rules, const KvSpec& kv = {}, int32_t n = 1,
                          int32_t logprobs = -1) {
    PreparedGeneration prepared;
    prepared.fields.max_tokens = kRestOfContext;
    prepared.fields.n = n;
    prepared.fields.logprobs = logprobs;
    prepared.fields.kv = kv;
    const std::optional<ApiError> error =
        PreparePrompts({{.is_ids = false, .text = "0123456789", .ids = {}}}, context, rules, &prepared);
    EXPECT_FALSE(error.has_value()) << error->message;
    return prepared.fields.max_tokens;
  };
  ServingContext context = ByteContext(1000);
  EXPECT_EQ(longest(context, {}), 990);
  EXPECT_EQ(longest(context, {.blocks_max = 4}), 54);
  EXPECT_EQ(longest(context, {.kv_budget_max = 100}), 90);
  EXPECT_EQ(longest(context, {.tokens_max = 300}), 290);
  EXPECT_EQ(longest(context, {.tokens_max = 300}, {}, 3), 90);
  context.limits.logprobs_kept_max = 600;
  EXPECT_EQ(longest(context, {}, {}, 2, 2), 100);
  context.limits.blocks = 20;
  EXPECT_EQ(longest(context, {}), 310);
  KvSpec h2o{.preset = KvPreset::kH2o, .budget_kind = KvBudgetKind::kTokens, .budget_tokens = 32};
  EXPECT_EQ(longest(context, {}, h2o), 990);
  h2o.budget_tokens = 512;
  EXPECT_EQ(longest(context, {}, h2o), 310) << "it would keep more than there is";
  KvSpec ratio{.preset = KvPreset::kH2o, .budget_kind = KvBudgetKind::kRatioOfTotal, .budget_ratio = .5};
  EXPECT_EQ(longest(context, {}, ratio), 629) << "a half of 639, and one";
  EXPECT_EQ(longest(context, {.kv_budget_max = 100}, ratio), 191) << "a half of 201";
  ratio.recent = 90;
  EXPECT_EQ(longest(context, {.kv_budget_max = 100}, ratio), 191) << "a shorter one has no room for what is recent";
  h2o.budget_tokens = 32;
  KvSpec rolling = h2o;
  rolling.position = KvPosition::kRolling;
  EXPECT_EQ(longest(context, {}, rolling), 1000);
  rolling.budget_tokens = 1000;
  context.limits.blocks = 100;
  EXPECT_EQ(longest(context, {}, rolling), 991) << "all are in view";
}

// A turn that recalls copies what it keeps while others may read what its prompt left.
TEST(PreparePrompts, ARecallingAnswerHasRoomForItsCopies) {
  ServingContext context = ByteContext(1000);
  context.limits.blocks = 20;
  context.prefix_caching = true;
  SessionStore sessions(IdleStore());
  context.sessions = &sessions;
  const auto longest = [&](int32_t budget) {
    PreparedGeneration prepared;
    prepared.fields.max_tokens = kRestOfContext;
    prepared.fields.session_id = "s";
    prepared.fields.kv = {.preset = KvPreset::kH2o, .budget_kind = KvBudgetKind::kTokens, .budget_tokens = budget};
    prepared.fields.kv.recall = true;
    const std::optional<ApiError> error =
        PreparePrompts({{.is_ids = false, .text = std::string(40, 'a'), .ids = {}}}, context, {}, &prepared);
    EXPECT_FALSE(error.has_value()) << error->message;
    return prepared.fields.max_tokens;
  };
  EXPECT_EQ(longest(100), 960);
  EXPECT_EQ(longest(200), 160) << "nothing is evicted before";
}

TEST(PrepareCompletion, RulesForTokensAreMadeOnlyWhereSomethingIsAsked) {
  ServingContext context = ByteContext(100);
  context.eos_ids = {ByteTokenizer::kEos};
  const auto shaper = [&](const std::string& members) {
    return PrepareCompletion(R"({"prompt":"aab")" + members + "}", context).value().prompts[0].shaper;
  };
  EXPECT_EQ(shaper(""), nullptr);
  EXPECT_EQ(shaper(R"(,"temperature":0.5,"top_k":3,"stop_token_ids":[5],"repetition_penalty":1,"min_tokens":0)"),
            nullptr);
  const auto rules = shaper(R"(,"min_tokens":3,"stop_token_ids":[5],"logit_bias":{"7":1.5},"allowed_token_ids":[9,8],
                             "bad_words":["xy"],"presence_penalty":0.5,"frequency_penalty":0.25,
                             "repetition_penalty":1.5,"ignore_eos":true)");
  ASSERT_NE(rules, nullptr);
  EXPECT_EQ(rules->rules().stop_ids, (std::vector<int32_t>{ByteTokenizer::kEos, 5}));
  EXPECT_EQ(rules->rules().min_tokens, 3);
  EXPECT_EQ(rules->rules().options.allowed_token_ids, (std::vector<int32_t>{8, 9}));
  EXPECT_EQ(rules->rules().bad_words, (std::vector<std::vector<int32_t>>{{'x', 'y'}}));
  EXPECT_EQ(rules->rules().options.logit_bias.front().id, 7);
  EXPECT_EQ(rules->rules().options.presence_penalty, 0.5f);
  EXPECT_EQ(rules->rules().options.frequency_penalty, 0.25f);
  EXPECT_EQ(rules->rules().options.repetition_penalty, 1.5f);
  LogitShaper copy = *rules;
  EXPECT_EQ(copy.Next()->counts.size(), 2u) << "a and b are in the prompt";
}

TEST(PrepareCompletion, ABadWordWithoutATokenIsRefused) {
  const ApiResult<PreparedGeneration> prepared =
      PrepareCompletion(R"({"prompt":"a","bad_words":[" "]})", ByteContext(100));
  ASSERT_FALSE(prepared.ok());
  EXPECT_EQ(prepared.error().param, "bad_words");
}

}  // namespace
}  // namespace hydrant
