#include "api/request/sampling_fields.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hydrant {
namespace {

ApiResult<SamplingFields> ReadSamplingFields(const std::string& members, double repetition_default = 1.0) {
  RequestContext context;
  context.vocab_size = 100;
  context.context = 2048;
  context.repetition_penalty = repetition_default;
  const ApiResult<JsonBody> document = JsonBody::Parse("{" + members + "}", context.limits);
  EXPECT_TRUE(document.ok()) << members;
  std::optional<ApiError> error;
  ObjectReader reader(document.value().root(), "", &error);
  SamplingFields fields;
  ReadSamplingFields(&reader, context, &fields);
  if (error.has_value()) return *error;
  return fields;
}

TEST(SamplingFieldsTest, NothingIsAskedByDefault) {
  for (const char* members :
       {"", R"("presence_penalty":null,"logit_bias":null,"allowed_token_ids":null,"bad_words":null)",
        R"("presence_penalty":0,"frequency_penalty":-0.0,"repetition_penalty":1)", R"("logit_bias":{},"bad_words":[])",
        R"("logit_bias":{"5":0,"6":-0.0})"}) {
    SCOPED_TRACE(members);
    const SamplingFields fields = ReadSamplingFields(members).value();
    EXPECT_EQ(fields.presence_penalty, 0.0f);
    EXPECT_EQ(fields.frequency_penalty, 0.0f);
    EXPECT_EQ(fields.repetition_penalty, 1.0f);
    EXPECT_TRUE(fields.logit_bias.empty());
    EXPECT_TRUE(fields.allowed_token_ids.empty());
    EXPECT_TRUE(fields.bad_words.empty());
  }
}

TEST(SamplingFieldsTest, ReadsWhatIsAsked) {
  const SamplingFields fields =
      ReadSamplingFields(
          R"("presence_penalty":-2,"frequency_penalty":2.0,"repetition_penalty":1.1,"logit_bias":{"7":-100,"5":1.5},
              "allowed_token_ids":[9,0,9,99],"bad_words":["a"," b"])")
          .value();
  EXPECT_EQ(fields.presence_penalty, -2.0f);
  EXPECT_EQ(fields.frequency_penalty, 2.0f);
  EXPECT_EQ(fields.repetition_penalty, 1.1f);
  ASSERT_EQ(fields.logit_bias.size(), 2u);
  EXPECT_EQ(fields.logit_bias[0].id, 5);
  EXPECT_EQ(fields.logit_bias[0].bias, 1.5f);
  EXPECT_EQ(fields.logit_bias[1].id, 7);
  EXPECT_EQ(fields.logit_bias[1].bias, -100.0f);
  EXPECT_EQ(fields.allowed_token_ids, (std::vector<int32_t>{0, 9, 99}));
  EXPECT_EQ(fields.bad_words, (std::vector<std::string>{"a", " b"}));
}

TEST(SamplingFieldsTest, ABiasSpelledTwiceCountsOnce) {
  const SamplingFields fields = ReadSamplingFields(R"("logit_bias":{"5":1,"05":2,"005":3})").value();
  ASSERT_EQ(fields.logit_bias.size(), 1u);
  EXPECT_EQ(fields.logit_bias[0].bias, 3.0f);
}

TEST(SamplingFieldsTest, GenerationConfigHasADefaultForRepetitions) {
  EXPECT_EQ(ReadSamplingFields("", 1.05).value().repetition_penalty, 1.05f);
  EXPECT_EQ(ReadSamplingFields(R"("repetition_penalty":1)", 1.05).value().repetition_penalty, 1.0f);
}

TEST(SamplingFieldsTest, EveryViolationNamesItsField) {
  const struct {
    const char* member;
    const char* param;
    const char* code;
  } cases[] = {
      {R"("presence_penalty":2.1)", "presence_penalty", "invalid_value"},
      {R"("presence_penalty":"0")", "presence_penalty", "invalid_type"},
      {R"("frequency_penalty":-2.1)", "frequency_penalty", "invalid_value"},
      {R"("frequency_penalty":1e38)", "frequency_penalty", "invalid_value"},
      {R"("repetition_penalty":1e-30)", "repetition_penalty", "invalid_value"},
      {R"("repetition_penalty":0)", "repetition_penalty", "invalid_value"},
      {R"("repetition_penalty":-1)", "repetition_penalty", "invalid_value"},
      {R"("repetition_penalty":1e30)", "repetition_penalty", "invalid_value"},
      {R"("logit_bias":{"5":101})", "logit_bias", "invalid_value"},
      {R"("logit_bias":{"5":-1e38})", "logit_bias", "invalid_value"},
      {R"("logit_bias":{"5":null})", "logit_bias", "invalid_value"},
      {R"("logit_bias":{"5":"1"})", "logit_bias", "invalid_value"},
      {R"("logit_bias":{"100":1})", "logit_bias", "token_id_out_of_range"},
      {R"("logit_bias":{"-1":1})", "logit_bias", "token_id_out_of_range"},
      {R"("logit_bias":{"x":1})", "logit_bias", "token_id_out_of_range"},
      {R"("logit_bias":{"":1})", "logit_bias", "token_id_out_of_range"},
      {R"("logit_bias":{"5 ":1})", "logit_bias", "token_id_out_of_range"},
      {R"("logit_bias":{"99999999999":1})", "logit_bias", "token_id_out_of_range"},
      {R"("logit_bias":[1])", "logit_bias", "invalid_type"},
      {R"("allowed_token_ids":[])", "allowed_token_ids", "invalid_value"},
      {R"("allowed_token_ids":5)", "allowed_token_ids", "invalid_type"},
      {R"("allowed_token_ids":[100])", "allowed_token_ids", "token_id_out_of_range"},
      {R"("bad_words":[""])", "bad_words", "invalid_value"},
      {R"("bad_words":[1])", "bad_words", "invalid_type"},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.member);
    const ApiResult<SamplingFields> read = ReadSamplingFields(test.member);
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().status, 400);
    EXPECT_EQ(read.error().param, test.param);
    EXPECT_EQ(read.error().code, test.code);
  }
}

TEST(SamplingFieldsTest, ListsAreBounded) {
  for (const int count : {1024, 1025}) {
    std::string bias = "\"logit_bias\":{";
    for (int i = 0; i < count; ++i) bias += (i == 0 ? "\"" : ",\"") + std::to_string(i % 100) + "\":0";
    EXPECT_EQ(ReadSamplingFields(bias + "}").ok(), count == 1024);
  }
  for (const int count : {128, 129}) {
    std::string words = R"("bad_words":["w")";
    for (int i = 1; i < count; ++i) words += R"(,"w")";
    EXPECT_EQ(ReadSamplingFields(words + "]").ok(), count == 128);
  }
}

}  // namespace
}  // namespace hydrant
