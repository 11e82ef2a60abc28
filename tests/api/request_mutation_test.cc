// Random damage to valid bodies: whatever arrives, the answer is a bounded request or a 4xx with a well-formed body.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "api/request/completion_request.h"
#include "api/request/tokenize.h"
#include "api/wire/json_writer.h"
#include "tests/support/sanitizers.h"

namespace hydrant {
namespace {

using Json = nlohmann::json;

constexpr int32_t kVocab = 100;
constexpr int32_t kContext = 2048;

RequestContext WideContext() {
  RequestContext context;
  context.model_names = {"smol"};
  context.vocab_size = kVocab;
  context.context = kContext;
  return context;
}

// Every field in a valid value.
Json Seed() {
  return Json::parse(
      R"({"model":"smol","prompt":"hello","max_tokens":7,"min_tokens":3,"n":2,"best_of":1,"temperature":0.5,
    "top_p":0.9,"top_k":40,"min_p":0.05,"seed":5,"stop":["a","b"],"stop_token_ids":[5],"include_stop_str_in_output":true,
    "ignore_eos":true,"logprobs":3,"echo":true,"stream":true,"stream_options":{"include_usage":true},"stream_interval":4,
    "add_special_tokens":false,"skip_special_tokens":false,"truncate_prompt_tokens":20,"return_token_ids":true,
    "kv_report":true,"kv":{"policy":"h2o","budget":{"ratio_of_prompt":0.5},"recent":3,"cadence":{"periodic":16},
    "position":"absolute","elastic":false,"prefill":"full"},"user":"u","request_id":"r","presence_penalty":0.5,
    "frequency_penalty":-1,"repetition_penalty":1.2,"logit_bias":{"5":1.5},"allowed_token_ids":[1,2],"bad_words":["x"],
    "prompt_logprobs":null,"return_tokens_as_token_ids":true,"spaces_between_special_tokens":true,"response_format":{"type":"text"},
    "tools":[],"priority":0})");
}

// Values that break careless readers.
Json HostileValue(std::mt19937* random) {
  static const Json kValues = Json::parse(
      R"([null,true,false,0,-1,1,16,17,1.5,-0.0,1e-300,1e300,2147483647,2147483648,4294967295,4294967297,
          9223372036854775807,9223372036854775808,18446744073709551615,-9223372036854775808,"","x","16","\u0000","é",[],
          [null],[[]],[1,2,3],["a","b"],[[1],[2]],[[[1]]],{},{"a":1},{"include_usage":1},{"ratio_of_prompt":0.3},
          {"periodic":-1},"h2o","window","full","sinks",{"policy":"sinks","budget":5},[99],[100],[-1]])");
  return kValues[(*random)() % kValues.size()];
}

void CheckRequest(const CompletionRequest& request) {
  const RequestLimits limits;
  ASSERT_GE(request.prompts.size(), 1u);
  ASSERT_LE(request.prompts.size(), static_cast<size_t>(limits.prompts_max));
  for (const RequestPrompt& prompt : request.prompts) {
    ASSERT_TRUE(prompt.is_ids ? !prompt.ids.empty() && prompt.text.empty()
                              : !prompt.text.empty() && prompt.ids.empty());
    ASSERT_TRUE(IsValidUtf8(prompt.text));
    for (const int32_t id : prompt.ids) ASSERT_TRUE(id >= 0 && id < kVocab);
  }
  ASSERT_GE(request.max_tokens, request.echo ? 0 : 1);
  ASSERT_TRUE(request.min_tokens >= 0 && request.min_tokens <= request.max_tokens);
  ASSERT_TRUE(request.n >= 1 && request.n <= limits.n_max);
  ASSERT_TRUE(request.temperature >= 0.0f && request.temperature <= 2.0f);
  ASSERT_TRUE(request.top_p > 0.0f && request.top_p <= 1.0f);
  ASSERT_GE(request.top_k, -1);
  ASSERT_TRUE(request.min_p >= 0.0f && request.min_p <= 1.0f);
  ASSERT_TRUE(std::abs(request.presence_penalty) <= 2.0f && std::abs(request.frequency_penalty) <= 2.0f);
  ASSERT_TRUE(request.repetition_penalty > 0.0f && request.repetition_penalty <= 10.0f);
  for (const TokenBias& bias : request.logit_bias) {
    ASSERT_TRUE(bias.id >= 0 && bias.id < kVocab && std::abs(bias.bias) <= 100.0f);
  }
  for (const int32_t id : request.allowed_token_ids) ASSERT_TRUE(id >= 0 && id < kVocab);
  ASSERT_TRUE(request.prompt_logprobs < 0 || !request.stream);
  ASSERT_LE(request.stop.size(), static_cast<size_t>(limits.stop_max));
  for (const std::string& stop : request.stop) ASSERT_TRUE(!stop.empty() && stop.size() <= limits.stop_bytes_max);
  for (const int32_t id : request.stop_token_ids) ASSERT_TRUE(id >= 0 && id < kVocab);
  ASSERT_TRUE(request.logprobs >= -1 && request.logprobs <= limits.logprobs_max);
  ASSERT_GE(request.stream_interval, 1);
  if (request.truncate_prompt_tokens.has_value()) {
    const int32_t kept = *request.truncate_prompt_tokens;
    ASSERT_TRUE(kept == kRestOfContext || (kept >= 1 && kept <= kContext));
  }
  ASSERT_EQ(CheckKvSpec(request.kv, kContext), std::nullopt);
  const ApiResult<KvSlots> slots = ResolveKvSlots(request.kv, 10, request.max_tokens, kContext);
  if (slots.ok() && request.kv.evicts()) {
    ASSERT_GE(slots.value().recent, 1);
    ASSERT_GE(slots.value().heavy, 0);
    ASSERT_LE(slots.value().budget, kContext);
  }
}

void CheckError(const ApiError& error) {
  ASSERT_TRUE(error.status == 400 || error.status == 404) << error.status;
  const std::string body = ErrorJson(error);
  ASSERT_TRUE(IsValidUtf8(body));
  const Json parsed = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(parsed.is_object());
  ASSERT_LT(body.size(), 1000u);
}

void CheckBody(const std::string& body) {
  const ApiResult<CompletionRequest> request = ParseCompletionRequest(body, WideContext());
  if (request.ok()) {
    CheckRequest(request.value());
  } else {
    CheckError(request.error());
  }
  const ApiResult<TokenizeRequest> tokenize = ParseTokenizeRequest(body, WideContext());
  if (!tokenize.ok()) CheckError(tokenize.error());
  const ApiResult<DetokenizeRequest> detokenize = ParseDetokenizeRequest(body, WideContext());
  if (!detokenize.ok()) CheckError(detokenize.error());
}

TEST(RequestMutationTest, TheSeedIsValid) {
  const ApiResult<CompletionRequest> request = ParseCompletionRequest(Seed().dump(), WideContext());
  ASSERT_TRUE(request.ok()) << request.error().message;
}

TEST(RequestMutationTest, HostileValuesGiveARequestOrA400) {
  std::mt19937 random(1);
  int accepted = 0;
  constexpr int kRounds = kSanitized ? 1'000 : 10'000;
  for (int round = 0; round < kRounds; ++round) {
    Json body = Seed();
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < changes; ++i) {
      Json* object = &body;
      if (random() % 3 == 0 && body["kv"].is_object()) object = &body["kv"];
      if (object->empty()) continue;
      auto member = object->begin();
      std::advance(member, random() % object->size());
      *member = HostileValue(&random);
    }
    const std::string text = body.dump();
    SCOPED_TRACE(text);
    accepted += ParseCompletionRequest(text, WideContext()).ok() ? 1 : 0;
    ASSERT_NO_FATAL_FAILURE(CheckBody(text));
  }
  // Neither everything nor nothing: the mutations must reach both sides.
  EXPECT_GT(accepted, kRounds / 40);
  EXPECT_LT(accepted, kRounds - kRounds / 40);
}

TEST(RequestMutationTest, DamagedBytesGiveARequestOrA400) {
  std::mt19937 random(2);
  const std::string seed = Seed().dump();
  for (int round = 0; round < (kSanitized ? 1'500 : 15'000); ++round) {
    std::string text = seed;
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < changes && !text.empty(); ++i) {
      const size_t at = random() % text.size();
      switch (random() % 5) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        case 2:
          text.insert(at, 1 + random() % 3, "[]{},:\"\\0-e.\x80\xff"[random() % 15]);
          break;
        case 3:
          text.resize(at);
          break;
        default:
          text.insert(at, seed, random() % seed.size(), random() % 40);
      }
    }
    ASSERT_NO_FATAL_FAILURE(CheckBody(text));
  }
}

}  // namespace
}  // namespace hydrant
