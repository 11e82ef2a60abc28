#include "server/completion_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "byte_context.h"
#include "test_server.h"

namespace hydrant {
namespace {

using testing::HasSubstr;
using testing::Not;
using Response = RawClient::Response;

// The texts of a stream's chunks, one after the other.
std::string TextOf(const std::string& events) {
  static constexpr std::string_view kMember = "\"text\":\"";
  std::string text;
  for (size_t at = 0; (at = events.find(kMember, at)) != std::string::npos;) {
    at += kMember.size();
    text += events.substr(at, events.find('"', at) - at);
  }
  return text;
}

TestServerOptions Reciting(const std::string& text) {
  TestServerOptions options;
  options.next = Recite(text);
  return options;
}

TEST(CompletionService, AWholeAnswer) {
  TestServer server(Reciting("Hello!"));
  const Response response = server.Ask(CompletionPost(R"({"prompt":"hi","max_tokens":20})", "X-Request-Id: me\r\n"));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.Field("content-type"), "application/json");
  EXPECT_THAT(response.body, HasSubstr(R"("id":"cmpl-me","object":"text_completion")"));
  EXPECT_THAT(response.body, HasSubstr(R"("text":"Hello!")"));
  EXPECT_THAT(response.body, HasSubstr(R"("finish_reason":"stop")"));
  EXPECT_THAT(response.body, HasSubstr(R"("prompt_tokens":2,"completion_tokens":7,"total_tokens":9)"));
}

TEST(CompletionService, AStreamIsEventsAndEndsWithDone) {
  TestServer server(Reciting("Hello!"));
  const Response response = server.Ask(CompletionPost(R"({"prompt":"hi","max_tokens":6,"stream":true})"));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.Field("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(response.Field("transfer-encoding"), "chunked");
  EXPECT_EQ(TextOf(response.body), "Hello!");
  EXPECT_TRUE(response.body.starts_with("data: {"));
  EXPECT_TRUE(response.body.ends_with("\n\ndata: [DONE]\n\n"));
}

TEST(CompletionService, NothingIsSentBeforeTheFirstToken) {
  TestServer server;
  server.executor().Hold();
  RawClient client(server.port());
  client.Send(CompletionPost(R"({"prompt":"hi","max_tokens":2,"stream":true})"));
  ASSERT_TRUE(Eventually([&] { return server.engine().backlog().sequences == 1; }));
  EXPECT_EQ(client.ReadUntil("HTTP", 0.05), "");
  server.executor().Release();
  EXPECT_EQ(client.ReadResponse().status, 200);
}

TEST(CompletionService, TextThatLooksLikeAnEventIsData) {
  TestServer server(Reciting("\n\ndata: [DONE]\n\n\"}"));
  const Response response = server.Ask(CompletionPost(R"({"prompt":"hi","max_tokens":50,"stream":true})"));
  EXPECT_EQ(response.body.find("data: [DONE]\n\n"), response.body.size() - 14);
}

TEST(CompletionService, AStopStringEndsTheStreamAndTheSequence) {
  TestServer server;
  const Response response =
      server.Ask(CompletionPost(R"({"prompt":"hi","max_tokens":4000,"stream":true,"stop":["ghi"]})"));
  EXPECT_EQ(TextOf(response.body), "cdef");
  EXPECT_THAT(response.body, HasSubstr(R"("finish_reason":"stop","stop_reason":"ghi")"));
  EXPECT_TRUE(server.BecomesIdle());
}

TEST(CompletionService, EveryBadRequestIsAnsweredByItselfAndNeverReachesTheEngine) {
  TestServerOptions options;
  options.blocks = 8;
  TestServer server(std::move(options));
  const std::string long_prompt(5000, 'x');
  const struct {
    const char* name;
    std::string body;
    int status;
    const char* code;
  } cases[] = {
      {"no JSON", "{", 400, "invalid_json"},
      {"65 levels", std::string(65, '['), 400, "json_too_deep"},
      {"100,000 levels", std::string(100'000, '['), 400, "json_too_deep"},
      {"300,000 values",
       "[" +
           [] {
             std::string zeros;
             for (int i = 0; i < 300'000; ++i) zeros += "0,";
             return zeros;
           }() +
           "0]",
       400, "json_too_many_nodes"},
      {"another model", R"({"prompt":"a","model":"x"})", 404, "model_not_found"},
      {"no prompt", R"({"prompt":""})", 400, "empty_prompt"},
      {"a token outside the vocabulary", R"({"prompt":[258]})", 400, "token_id_out_of_range"},
      {"17 samples", R"({"prompt":"a","n":17})", 400, ""},
      {"17 stops", R"({"prompt":"a","stop":["a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a"]})",
       400, ""},
      {"beyond the context", R"({"prompt":")" + long_prompt + R"("})", 400, "context_length_exceeded"},
      {"rolling, but too much of it at once",
       R"({"kv":{"policy":"h2o","budget":16,"position":"rolling"},"prompt":")" + long_prompt + R"("})", 400,
       "context_length_exceeded"},
      {"rolling for longer than anybody may",
       R"({"prompt":"a","max_tokens":2000000,"kv":{"policy":"h2o","budget":16,"position":"rolling"}})", 400,
       "max_tokens"},
      {"beyond the pool", R"({"prompt":"a","max_tokens":200})", 400, "kv_capacity_exceeded"},
      {"an unknown policy", R"({"prompt":"a","kv":{"policy":"x"}})", 400, ""},
  };
  for (const auto& test : cases) {
    const Response response = server.Ask(CompletionPost(test.body));
    EXPECT_EQ(response.status, test.status) << test.name;
    EXPECT_THAT(response.body, HasSubstr(test.code)) << test.name;
  }
  EXPECT_EQ(server.executor().steps, 0);
  EXPECT_EQ(server.Ask(CompletionPost(R"({"prompt":"a","max_tokens":200,"kv":{"policy":"h2o","budget":16}})")).status,
            200)
      << "with a budget it fits";
  EXPECT_EQ(server
                .Ask(CompletionPost(
                    R"({"prompt":"a","max_tokens":6000,"kv":{"policy":"h2o","budget":16,"position":"rolling"}})"))
                .status,
            200)
      << "nor does the context bound it when positions roll";
}

TEST(CompletionService, AClientThatLeavesFreesItsBlocksWithinAStep) {
  for (const bool stream : {false, true}) {
    for (const bool reset : {false, true}) {
      TestServer server;
      server.executor().Hold();
      RawClient client(server.port());
      client.Send(
          CompletionPost(std::string(R"({"prompt":"hi","max_tokens":4000,"stream":)") + (stream ? "true}" : "false}")));
      ASSERT_TRUE(Eventually([&] { return server.engine().backlog().sequences == 1; }));
      client.Close(reset);
      EXPECT_TRUE(Eventually([&] { return server.Ask(Get("/load")).body == R"({"server_load":0})"; }));
      const int64_t steps_before = server.executor().steps;
      server.executor().Release();
      EXPECT_TRUE(server.BecomesIdle());
      EXPECT_LE(server.executor().steps - steps_before, 1) << "stream " << stream << ", reset " << reset;
    }
  }
}

TEST(CompletionService, OneSlowReaderIsPausedAndNobodyElse) {
  TestServerOptions options;
  options.context = 60'000;
  options.blocks = 4000;
  options.http.limits.stream_buffer_bytes_max = 4096;
  TestServer server(std::move(options));
  RawClient lazy(server.port(), /*receive_buffer_bytes=*/4096);
  lazy.Send(CompletionPost(R"({"prompt":"hi","max_tokens":50000,"stream":true,"logprobs":5})"));
  const auto generated = [&] { return server.engine().counters().scheduler.generated_tokens; };
  // It stands still when two answers of others pass and it has not moved.
  uint64_t before = 0;
  ASSERT_TRUE(Eventually([&] {
    before = generated();
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(server.Ask(CompletionPost(R"({"prompt":"you","max_tokens":3})")).status, 200);
    }
    return before > 0 && generated() == before + 6;
  }));
  EXPECT_LT(before, 20'000u) << "no more than what the buffers hold";
  const Response response = lazy.ReadResponse(60);
  const std::string text = TextOf(response.body);
  ASSERT_EQ(text.size(), 50'000u) << "and it gets everything once it reads";
  for (size_t i = 0; i < text.size(); ++i) ASSERT_EQ(text[i], static_cast<char>('a' + (i + 2) % 26)) << i;
}

TEST(CompletionService, AReaderThatNeverReadsIsEnded) {
  TestServerOptions options;
  options.context = 60'000;
  options.blocks = 4000;
  options.http.limits.stream_stall_s = 0.2;
  TestServer server(std::move(options));
  RawClient lazy(server.port(), 4096);
  lazy.Send(CompletionPost(R"({"prompt":"hi","max_tokens":50000,"stream":true})"));
  ASSERT_TRUE(Eventually([&] { return server.engine().backlog().sequences == 1; }));
  EXPECT_TRUE(server.BecomesIdle(30));
}

TEST(CompletionService, AFullQueueSaysWhenToComeBack) {
  TestServerOptions options;
  options.sequences_max = 1;
  options.http.limits.waiting_sequences_max = 1;
  TestServer server(std::move(options));
  server.executor().Hold();
  RawClient first(server.port());
  RawClient second(server.port());
  for (RawClient* client : {&first, &second}) client->Send(CompletionPost(R"({"prompt":"hi","max_tokens":2})"));
  ASSERT_TRUE(Eventually([&] { return server.engine().backlog().sequences == 2; }));
  const Response response = server.Ask(CompletionPost(R"({"prompt":"hi","max_tokens":2})"));
  EXPECT_EQ(response.status, 503);
  EXPECT_THAT(response.body, HasSubstr("queue_full"));
  EXPECT_GE(std::atoi(response.Field("retry-after").c_str()), 1);
  EXPECT_EQ(response.Field("x-ratelimit-limit-requests"), "2");
  EXPECT_EQ(response.Field("x-ratelimit-remaining-requests"), "0");
  EXPECT_NE(response.Field("x-ratelimit-limit-tokens"), "");
  server.executor().Release();
  EXPECT_EQ(first.ReadResponse().status, 200);
  EXPECT_EQ(second.ReadResponse().status, 200);
}

TEST(CompletionService, NumbersThatAreNotFiniteFailTheirRequestOnly) {
  TestServer server;
  server.executor().not_finite = true;
  const Response whole = server.Ask(CompletionPost(R"({"prompt":"hi"})"));
  EXPECT_EQ(whole.status, 500);
  EXPECT_THAT(whole.body, HasSubstr("numerical_error"));
  EXPECT_EQ(server.Ask(CompletionPost(R"({"prompt":"hi","stream":true})")).status, 500) << "nothing was sent yet";
  server.executor().not_finite = false;
  EXPECT_EQ(server.Ask(CompletionPost(R"({"prompt":"hi"})")).status, 200);
}

TEST(CompletionService, AnErrorInAStreamIsAnEventBeforeDone) {
  TestServer server;
  server.executor().Hold(3);
  RawClient client(server.port());
  client.Send(CompletionPost(R"({"prompt":"hi","max_tokens":4000,"stream":true})"));
  std::string all = client.ReadUntil("data: ");
  server.executor().not_finite = true;
  server.executor().Release();
  all += client.ReadUntil("data: [DONE]\n\n");
  EXPECT_TRUE(all.starts_with("HTTP/1.1 200 "));
  EXPECT_THAT(all, HasSubstr(R"(data: {"error":{"message":)"));
  EXPECT_THAT(all, HasSubstr("numerical_error"));
}

TEST(CompletionService, TheDeathOfTheEngineEndsEveryStreamAndTheServer) {
  TestServer server;
  server.executor().Hold(3);
  RawClient streaming(server.port());
  streaming.Send(CompletionPost(R"({"prompt":"hi","max_tokens":4000,"stream":true})"));
  std::string all = streaming.ReadUntil("data: ");
  server.executor().fails = true;
  server.executor().Release();
  all += streaming.ReadUntil("[DONE]\n\n");
  EXPECT_THAT(all, HasSubstr("engine_failed"));
  EXPECT_THAT(all, HasSubstr("data: [DONE]\n\n"));
  EXPECT_EQ(server.Join(), 70);
}

TEST(CompletionService, LargeBodiesGiveTheSameAnswerAsSmallOnes) {
  TestServer server;
  const std::string small = server.Ask(CompletionPost(R"({"prompt":"hi","max_tokens":5})")).body;
  const std::string padding(100'000, ' ');
  const std::string large = server.Ask(CompletionPost(padding + R"({"prompt":"hi","max_tokens":5})")).body;
  const auto choices = [](const std::string& body) { return body.substr(body.find("\"choices\"")); };
  EXPECT_EQ(choices(small), choices(large));
}

TEST(PrepareCompletion, AddedAndTypedSpecialTokensAreKeptApart) {
  ServingContext context = ByteContext(100);
  const auto tokenizer = std::make_shared<ByteTokenizer>();
  tokenizer->add_bos = true;
  context.tokenizer = tokenizer;

  const PreparedPrompt with = PrepareCompletion(R"({"prompt":"hi"})", context).value().prompts[0];
  EXPECT_EQ(with.ids.front(), ByteTokenizer::kBos);
  EXPECT_EQ(with.hidden_specials, 1);
  EXPECT_TRUE(with.show_specials);
  const PreparedPrompt without =
      PrepareCompletion(R"({"prompt":"hi","add_special_tokens":false})", context).value().prompts[0];
  EXPECT_EQ(without.ids, ByteIds("hi"));
  EXPECT_EQ(without.hidden_specials, 0);
  const PreparedPrompt ids = PrepareCompletion(R"({"prompt":[257,104]})", context).value().prompts[0];
  EXPECT_EQ(ids.hidden_specials, 0);
  EXPECT_FALSE(ids.show_specials);
  const PreparedPrompt cut =
      PrepareCompletion(R"({"prompt":"abcdef","truncate_prompt_tokens":3})", context).value().prompts[0];
  EXPECT_EQ(cut.ids, (std::vector<int32_t>{ByteTokenizer::kBos, 'e', 'f'}));

  tokenizer->add_bos = false;
  const PreparedPrompt typed =
      PrepareCompletion(R"({"prompt":"<bos>abcd","truncate_prompt_tokens":2})", context).value().prompts[0];
  EXPECT_EQ(typed.hidden_specials, 0) << "the client typed it: an echo shows it";
  EXPECT_EQ(typed.ids, ByteIds("cd")) << "and a truncation drops it";
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
  EXPECT_EQ(prepare(R"(,"priority":3)").value().request.priority, 3);
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
    const ApiResult<PreparedCompletion> prepared = prepare(test.members);
    ASSERT_FALSE(prepared.ok()) << test.name;
    EXPECT_EQ(prepared.error().param, test.param) << test.name;
  }
  rules.blocks_max = 2;
  EXPECT_EQ(prepare("").error().code, "kv_capacity_exceeded") << "forty tokens are three blocks";
}

TEST(PrepareCompletion, ARequestIsBoundedAsAWhole) {
  ServingContext context = ByteContext(100);
  context.request_tokens_max = 60;
  context.request_sequences_max = 8;
  context.logprobs_kept_max = 100;
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
      {"105 of prompts",
       R"({"prompt":["0123456789","0123456789+"],"max_tokens":1,"logprobs":4,"stream":true,"echo":true})", "logprobs"},
  };
  for (const auto& test : cases) {
    const ApiResult<PreparedCompletion> prepared = PrepareCompletion(test.body, context);
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

}  // namespace
}  // namespace hydrant
