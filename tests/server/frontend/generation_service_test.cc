#include "server/frontend/generation_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "api/response/sse.h"
#include "server/process/clock.h"
#include "server/sessions/journal/session_journal.h"
#include "tests/server/durable_server.h"
#include "tests/server/generation/byte_context.h"
#include "tests/server/sessions/journal/stuck_disk.h"
#include "tests/server/test_server.h"
#include "tests/support/temp_dir.h"

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

TEST(GenerationService, AWholeAnswer) {
  TestServer server(Reciting("Hello!"));
  const Response response = server.Ask(CompletionPost(R"({"prompt":"hi","max_tokens":20})", "X-Request-Id: me\r\n"));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.Field("content-type"), "application/json");
  EXPECT_THAT(response.body, HasSubstr(R"("id":"cmpl-me","object":"text_completion")"));
  EXPECT_THAT(response.body, HasSubstr(R"("text":"Hello!")"));
  EXPECT_THAT(response.body, HasSubstr(R"("finish_reason":"stop")"));
  EXPECT_THAT(response.body, HasSubstr(R"("prompt_tokens":2,"completion_tokens":7,"total_tokens":9)"));
}

TEST(GenerationService, AStreamIsEventsAndEndsWithDone) {
  TestServer server(Reciting("Hello!"));
  const Response response = server.Ask(CompletionPost(R"({"prompt":"hi","max_tokens":6,"stream":true})"));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.Field("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(response.Field("transfer-encoding"), "chunked");
  EXPECT_EQ(TextOf(response.body), "Hello!");
  EXPECT_TRUE(response.body.starts_with("data: {"));
  EXPECT_TRUE(response.body.ends_with("\n\ndata: [DONE]\n\n"));
}

TEST(GenerationService, NothingIsSentBeforeTheFirstToken) {
  TestServer server;
  server.executor().Hold();
  RawClient client(server.port());
  client.Send(CompletionPost(R"({"prompt":"hi","max_tokens":2,"stream":true})"));
  ASSERT_TRUE(Eventually([&] { return server.engine().backlog().sequences == 1; }));
  EXPECT_EQ(client.ReadUntil("HTTP", 0.05), "");
  server.executor().Release();
  EXPECT_EQ(client.ReadResponse().status, 200);
}

TEST(GenerationService, TextThatLooksLikeAnEventIsData) {
  TestServer server(Reciting("\n\ndata: [DONE]\n\n\"}"));
  const Response response = server.Ask(CompletionPost(R"({"prompt":"hi","max_tokens":50,"stream":true})"));
  EXPECT_EQ(response.body.find("data: [DONE]\n\n"), response.body.size() - 14);
}

TEST(GenerationService, AStopStringEndsTheStreamAndTheSequence) {
  TestServer server;
  const Response response =
      server.Ask(CompletionPost(R"({"prompt":"hi","max_tokens":4000,"stream":true,"stop":["ghi"]})"));
  EXPECT_EQ(TextOf(response.body), "cdef");
  EXPECT_THAT(response.body, HasSubstr(R"("finish_reason":"stop","stop_reason":"ghi")"));
  EXPECT_TRUE(server.BecomesIdle());
}

TEST(GenerationService, AFormThatCannotBeEnforcedIsRefusedByName) {
  TestServer server;
  const std::string body =
      R"({"prompt":"hi","guided_json":{"properties":{"tags":{"type":"array","uniqueItems":true}}}})";
  for (int i = 0; i < 2; ++i) {  // the second time from the cache
    const Response response = server.Ask(CompletionPost(body));
    EXPECT_EQ(response.status, 400);
    EXPECT_THAT(response.body, HasSubstr(R"('guided_json' at '/properties/tags', 'uniqueItems': )"));
    EXPECT_THAT(response.body, HasSubstr(R"("param":"guided_json","code":"unsupported_schema_keyword")"));
  }
  const Response metrics = server.Ask(Get("/metrics"));
  EXPECT_THAT(metrics.body, testing::ContainsRegex(R"(hydrant_shape_compiles_total\{[^}]*result="refused"[^}]*\} 1)"));
  EXPECT_THAT(metrics.body, testing::ContainsRegex(R"(hydrant_shape_cache_hits_total(\{[^}]*\})? 1)"));
  EXPECT_EQ(server.tenants().table()->entries()[0]->account->snapshot(0).open, 0);
  EXPECT_TRUE(server.BecomesIdle());
}

TEST(GenerationService, AnAnswerEndsWhereItsFormDoes) {
  TestServer server(Reciting(R"({"a":1} and more)"));
  const Response response =
      server.Ask(CompletionPost(R"({"prompt":"hi","max_tokens":20,"response_format":{"type":"json_object"}})"));
  EXPECT_EQ(response.status, 200);
  EXPECT_THAT(response.body, HasSubstr(R"("text":"{\"a\":1}")"));
  EXPECT_THAT(response.body, HasSubstr(R"("finish_reason":"stop","stop_reason":null)"));
  EXPECT_THAT(response.body, HasSubstr(R"("completion_tokens":7)"));
}

TEST(GenerationService, AnAnswerThatLeavesItsFormFails) {
  TestServer server(Reciting("{]"));
  const Response response =
      server.Ask(CompletionPost(R"({"prompt":"hi","max_tokens":20,"response_format":{"type":"json_object"}})"));
  EXPECT_EQ(response.status, 500);
  EXPECT_THAT(response.body, HasSubstr("structured_output_limit"));
  EXPECT_TRUE(server.BecomesIdle());
}

TEST(GenerationService, WhatCannotBeClosedInTimeIsRefused) {
  TestServer server(Reciting("{}"));
  const std::string closing =
      R"("response_format":{"type":"json_object"},"structured_outputs":{"close_at_max_tokens":true}})";
  const Response refused = server.Ask(CompletionPost(R"({"prompt":"hi","max_tokens":1,)" + closing));
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("'max_tokens' must be at least 2 here"));
  const Response closed = server.Ask(CompletionPost(R"({"prompt":"hi","max_tokens":2,)" + closing));
  EXPECT_THAT(closed.body, HasSubstr(R"("finish_reason":"stop","stop_reason":"closed_at_limit")"));
}

TEST(GenerationService, EveryBadRequestIsAnsweredByItselfAndNeverReachesTheEngine) {
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

TEST(GenerationService, ATenantsLongestAnswerIsRefusedByNameAndBoundsADefault) {
  TestServerOptions options;
  options.tenants.tenants.front().max_tokens_max = 8;
  TestServer server(std::move(options));
  for (const std::string field : {"max_tokens", "max_completion_tokens"}) {
    const Response over = server.Ask(CompletionPost(R"({"prompt":"hi",")" + field + R"(":9})"));
    EXPECT_EQ(over.status, 400) << field;
    EXPECT_THAT(over.body, HasSubstr(R"("param":")" + field + '"'));
    EXPECT_THAT(over.body, HasSubstr("at most 8 for this tenant (max_tokens_max)"));
    EXPECT_EQ(server.Ask(CompletionPost(R"({"prompt":"hi",")" + field + R"(":8})")).status, 200) << field;
  }
  EXPECT_THAT(server.Ask(CompletionPost(R"({"prompt":"hi"})")).body, HasSubstr(R"("completion_tokens":8,)"));
}

TEST(GenerationService, ARequestThatTakesLongerThanItsTenantMayEnds) {
  for (const bool begun : {false, true}) {
    for (const bool stream : {false, true}) {
      TestServerOptions options;
      // What has begun needs its first event before that. The exact times are RequestDeadlines' tests'.
      options.tenants.tenants.front().request_seconds_max = begun && stream ? 3 : 0.3;
      TestServer server(std::move(options));
      server.executor().Hold(begun ? 3 : 0);
      RawClient client(server.port());
      client.Send(
          CompletionPost(std::string(R"({"prompt":"hi","max_tokens":4000,"stream":)") + (stream ? "true}" : "false}")));
      const Response response = client.ReadResponse();
      EXPECT_EQ(response.status, begun && stream ? 200 : 504) << "begun " << begun << ", stream " << stream;
      EXPECT_THAT(response.body, HasSubstr(R"("code":"request_time_exceeded")"));
      EXPECT_EQ(response.body.ends_with("data: [DONE]\n\n"), begun && stream);
      EXPECT_THAT(server.Ask(Get("/metrics")).body,
                  HasSubstr("hydrant_rejected_total{reason=\"timeout\",tenant=\"default\"} 1"));
      server.executor().Release();
      EXPECT_TRUE(server.BecomesIdle()) << "what ran is cancelled";
      const std::string next = CompletionPost(R"({"prompt":"hi","max_tokens":4})");
      EXPECT_TRUE(Eventually([&] { return server.Ask(next).status == 200; })) << "one in time";
    }
  }
}

TEST(GenerationService, ARequestMayAskForLessTimeThanItHas) {
  TestServerOptions options;
  options.http.limits.request_timeout_s = 60;
  TestServer server(std::move(options));
  server.executor().Hold();
  int ended = 0;
  for (const bool header : {false, true}) {
    const auto began = std::chrono::steady_clock::now();
    const Response response =
        server.Ask(CompletionPost(header ? R"({"prompt":"hi"})" : R"({"prompt":"hi","timeout":0.2})",
                                  header ? "X-Request-Timeout: 0.2\r\n" : ""));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    EXPECT_EQ(response.status, 504);
    EXPECT_THAT(response.body, HasSubstr(R"("code":"request_time_exceeded")"));
    EXPECT_THAT(response.body, HasSubstr(header ? "0.2 seconds (X-Request-Timeout)" : "0.2 seconds (timeout)"));
    EXPECT_GE(took.count(), 0.19);
    EXPECT_THAT(server.Ask(Get("/metrics")).body,
                HasSubstr("hydrant_rejected_total{reason=\"timeout\",tenant=\"default\"} " + std::to_string(++ended)));
  }
  server.executor().Release();
  EXPECT_TRUE(server.BecomesIdle());
  const Response over = server.Ask(CompletionPost(R"({"prompt":"hi","timeout":61})"));
  EXPECT_EQ(over.status, 400);
  EXPECT_THAT(over.body, HasSubstr(R"("param":"timeout")"));
  EXPECT_THAT(over.body, HasSubstr("at most 60 seconds here (--request-timeout-s)"));
}

TEST(GenerationService, AClientThatWaitsTooLongInTheQueueIsToldToComeBack) {
  for (const bool stream : {false, true}) {
    TestServerOptions options;
    options.sequences_max = 1;
    options.http.limits.queue_timeout_s = 0.3;
    TestServer server(std::move(options));
    std::optional<RawClient> running;
    int waited_too_long = 0;
    // A slow machine may not admit it in time: it is sent again.
    ASSERT_TRUE(Eventually([&] {
      ++waited_too_long;
      server.executor().Release();
      EXPECT_TRUE(server.BecomesIdle());
      server.executor().Hold(2);
      running.emplace(server.port());
      running->Send(CompletionPost(R"({"prompt":"hi","max_tokens":40,"stream":true})"));
      return running->ReadUntil("\r\n").starts_with("HTTP/1.1 200 ");
    })) << "admitted";
    const std::string post = CompletionPost(std::string(R"({"prompt":"hi","stream":)") + (stream ? "true}" : "false}"));
    const Response response = server.Ask(post);
    EXPECT_EQ(response.status, 504) << "stream " << stream;
    EXPECT_THAT(response.body, HasSubstr(R"("code":"queue_time_exceeded")"));
    EXPECT_GE(std::atoi(response.Field("retry-after").c_str()), 1);
    const std::string metrics = server.Ask(Get("/metrics")).body;
    EXPECT_THAT(metrics, HasSubstr("hydrant_rejected_total{reason=\"queue_timeout\",tenant=\"default\"} " +
                                   std::to_string(waited_too_long)));
    EXPECT_THAT(metrics, HasSubstr("hydrant_rejected_total{reason=\"timeout\",tenant=\"default\"} 0"));
    server.executor().Release();
    EXPECT_THAT(running->ReadUntil("[DONE]"), Not(HasSubstr("error"))) << "what was admitted in time goes on";
    EXPECT_TRUE(server.BecomesIdle()) << "what waited is cancelled";
    EXPECT_TRUE(Eventually([&] { return server.Ask(post).status == 200; })) << "one that need not wait";
  }
}

TEST(GenerationService, AClientThatLeavesFreesItsBlocksWithinAStep) {
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

std::string EmbeddingPost(const std::string& json) {
  return "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(json.size()) +
         "\r\n\r\n" + json;
}

// The executor's states are [token, position + 1].
TEST(GenerationService, EmbeddingsAreMadeOfThePromptsStates) {
  TestServer server;
  const Response last = server.Ask(EmbeddingPost(R"({"input":[[97], [3, 4]]})"));
  EXPECT_EQ(last.status, 200) << last.body;
  EXPECT_THAT(last.body, HasSubstr(R"("embedding":[0.99994)")) << "97 and 1";
  EXPECT_THAT(last.body, HasSubstr(R"("index":1,"embedding":[0.8944272,0.4472136])")) << "4 and 2";
  EXPECT_THAT(last.body, HasSubstr(R"("prompt_tokens":3,"completion_tokens":0,"total_tokens":3)"));
  const Response mean = server.Ask(EmbeddingPost(R"({"input":[3, 1],"pooling":"mean"})"));
  EXPECT_THAT(mean.body, HasSubstr(R"("embedding":[0.8,0.6])")) << "3 and 1, 1 and 2";
  EXPECT_EQ(server.Ask(EmbeddingPost(R"({"input":"x","dimensions":1})")).status, 400);
  EXPECT_TRUE(server.BecomesIdle());
}

TEST(GenerationService, AClientThatLeavesItsEmbeddingsFreesItsBlocks) {
  TestServer server;
  server.executor().Hold();
  RawClient client(server.port());
  std::string inputs = R"("a")";
  for (int i = 1; i < 64; ++i) inputs += R"(,"b")";
  client.Send(EmbeddingPost(R"({"pooling":"mean","input":[)" + inputs + "]}"));
  ASSERT_TRUE(Eventually([&] { return server.engine().backlog().sequences == 64; }));
  client.Close();
  EXPECT_TRUE(Eventually([&] { return server.Ask(Get("/load")).body == R"({"server_load":0})"; }));
  server.executor().Release();
  EXPECT_TRUE(server.BecomesIdle());
}

TEST(GenerationService, OneSlowReaderIsPausedAndNobodyElse) {
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
  // Through a window of four kilobytes TCP now and then crawls: a third of it in a minute.
  lazy.SetReceiveBuffer(1 << 20);
  const Response response = lazy.ReadResponse(60);
  const std::string text = TextOf(response.body);
  ASSERT_EQ(text.size(), 50'000u) << "and it gets everything once it reads";
  for (size_t i = 0; i < text.size(); ++i) ASSERT_EQ(text[i], static_cast<char>('a' + (i + 2) % 26)) << i;
}

double MetricOf(TestServer& server, const std::string& series) {
  const std::string text = server.Ask(Get("/metrics")).body;
  const size_t at = text.find("\n" + series);
  return at == std::string::npos ? -1 : std::atof(text.c_str() + text.find(' ', at));
}

TEST(GenerationService, WhatNobodyReadIsCountedAllTheSame) {
  TestServerOptions options;
  options.context = 60'000;
  options.blocks = 4000;
  options.http.limits.stream_buffer_bytes_max = 64 << 20;
  options.http.limits.stream_stall_s = 600;
  TestServer server(std::move(options));
  server.executor().Hold(20'000);
  RawClient lazy(server.port(), /*receive_buffer_bytes=*/4096);
  lazy.Send(CompletionPost(R"({"prompt":"hi","max_tokens":50000,"stream":true})"));
  const auto generated = [&] { return server.engine().counters().scheduler.generated_tokens; };
  ASSERT_TRUE(Eventually([&] { return generated() >= 19'990; }, 60));
  lazy.Close(/*reset=*/true);
  EXPECT_TRUE(Eventually([&] { return server.Ask(Get("/load")).body == R"({"server_load":0})"; }));
  const double counted = MetricOf(server, "vllm:request_generation_tokens_sum");
  EXPECT_GE(counted, 19'990);
  EXPECT_LE(counted, static_cast<double>(generated()));
  server.executor().Release();
  EXPECT_TRUE(server.BecomesIdle());
}

// What waits for the disk has met its deadline, and takes no processor.
TEST(GenerationService, AnAnswerThatWaitsForTheDiskBeyondItsTimeTakesNoProcessor) {
  const TempDir temp;
  StuckDisk disk;
  SessionJournal::Options journal;
  journal.through = [&disk](std::unique_ptr<LogDirectory> files) -> std::unique_ptr<LogDirectory> {
    return std::make_unique<StuckDirectory>(std::move(files), disk);
  };
  DurableServer durable(temp.File("d"), {}, std::move(journal));
  TestServer& server = *durable.server;
  disk.Hang(StuckDisk::Stuck::kWrites);
  const absl::Cleanup lets_go = [&disk] { disk.Hang(StuckDisk::Stuck::kNothing); };
  RawClient whole(server.port()), stream(server.port());
  const int64_t sent_us = MonotonicUs();
  whole.Send(CompletionPost(R"({"session_id":"a","prompt":"hi","max_tokens":3,"timeout":3})"));
  stream.Send(CompletionPost(R"({"session_id":"b","prompt":"hi","max_tokens":3,"timeout":3,"stream":true})"));
  ASSERT_TRUE(Eventually([&] { return server.engine().counters().scheduler.generated_tokens == 6; }));
  EXPECT_TRUE(Eventually([&] { return MonotonicUs() > sent_us + 3'100'000; }));
  std::promise<void> nothing;
  const std::clock_t before = std::clock();
  nothing.get_future().wait_for(std::chrono::milliseconds(500));
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.2);
  disk.Hang(StuckDisk::Stuck::kNothing);
  EXPECT_EQ(whole.ReadResponse().status, 200);
  EXPECT_THAT(stream.ReadResponse().body, HasSubstr("[DONE]"));
}

TEST(GenerationService, AReaderThatNeverReadsIsEnded) {
  TestServerOptions options;
  options.context = 60'000;
  options.blocks = 4000;
  options.http.limits.stream_stall_s = 0.2;
  TestServer server(std::move(options));
  RawClient lazy(server.port(), 4096);
  lazy.Send(CompletionPost(R"({"prompt":"hi","max_tokens":50000,"stream":true})"));
  // That it has begun can be seen after its end, too.
  ASSERT_TRUE(Eventually([&] { return server.engine().counters().scheduler.generated_tokens > 0; }));
  EXPECT_TRUE(server.BecomesIdle());
}

// Whose sequence stands aside hears nothing for a while; what has not begun is still to have a status of its own.
TEST(GenerationService, AStreamThatHasNothingToSaySaysSo) {
  TestServerOptions options;
  options.http.limits.stream_quiet_s = 0.02;
  TestServer server(std::move(options));
  server.executor().Hold(2);
  RawClient client(server.port());
  client.Send(CompletionPost(R"({"prompt":"hi","max_tokens":4,"stream":true})"));
  const std::string quiet = client.ReadUntil(std::string(kSseComment), 10);
  EXPECT_THAT(quiet, HasSubstr("data: {"));
  EXPECT_NE(quiet.find(kSseComment), std::string::npos);
  EXPECT_LT(quiet.find("data: {"), quiet.find(kSseComment)) << "the first event comes first";
  EXPECT_THAT(client.ReadUntil(std::string(kSseComment), 10), HasSubstr(kSseComment)) << "and again";
  server.executor().Release();
  EXPECT_THAT(client.ReadUntil("data: [DONE]", 10), HasSubstr("finish_reason\":\"length"));
  RawClient waits(server.port());
  server.executor().Hold();
  waits.Send(CompletionPost(R"({"prompt":"hi","max_tokens":4,"stream":true})"));
  EXPECT_EQ(waits.ReadUntil("HTTP", 0.1), "") << "no head before there is something to say";
  server.executor().Release();
  EXPECT_EQ(waits.ReadResponse().status, 200);
}

TEST(GenerationService, AFullQueueSaysWhenToComeBack) {
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

TEST(GenerationService, NumbersThatAreNotFiniteFailTheirRequestOnly) {
  TestServer server;
  server.executor().not_finite = true;
  const Response whole = server.Ask(CompletionPost(R"({"prompt":"hi"})"));
  EXPECT_EQ(whole.status, 500);
  EXPECT_THAT(whole.body, HasSubstr("numerical_error"));
  EXPECT_EQ(server.Ask(CompletionPost(R"({"prompt":"hi","stream":true})")).status, 500) << "nothing was sent yet";
  server.executor().not_finite = false;
  EXPECT_EQ(server.Ask(CompletionPost(R"({"prompt":"hi"})")).status, 200);
}

TEST(GenerationService, AnErrorInAStreamIsAnEventBeforeDone) {
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

TEST(GenerationService, TheDeathOfTheEngineEndsEveryStreamAndTheServer) {
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

TEST(GenerationService, LargeBodiesGiveTheSameAnswerAsSmallOnes) {
  TestServer server;
  const std::string small = server.Ask(CompletionPost(R"({"prompt":"hi","max_tokens":5})")).body;
  const std::string padding(100'000, ' ');
  const std::string large = server.Ask(CompletionPost(padding + R"({"prompt":"hi","max_tokens":5})")).body;
  const auto choices = [](const std::string& body) { return body.substr(body.find("\"choices\"")); };
  EXPECT_EQ(choices(small), choices(large));
}

}  // namespace
}  // namespace hydrant
