#include "server/speculative_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace hydrant {
namespace {

using testing::HasSubstr;

NgramOptions Good(const std::string& json) {
  NgramOptions options;
  EXPECT_EQ(ParseSpeculativeConfig(json, &options), "") << json;
  return options;
}

TEST(SpeculativeConfig, ReadsWhatVllmReads) {
  const NgramOptions options =
      Good(R"({"method": "ngram", "num_speculative_tokens": 6, "prompt_lookup_max": 4, "prompt_lookup_min": 2})");
  EXPECT_EQ(options.tokens, 6);
  EXPECT_EQ(options.lookup_max, 4);
  EXPECT_EQ(options.lookup_min, 2);
  EXPECT_EQ(DraftsPerStep(options), 6 * kDraftRowsMax);
}

TEST(SpeculativeConfig, HasVllmsDefaults) {
  NgramOptions options = Good(R"({"method": "ngram", "num_speculative_tokens": 1})");
  EXPECT_EQ(options.lookup_max, 5);
  EXPECT_EQ(options.lookup_min, 5);
  options = Good(R"({"method": "ngram", "num_speculative_tokens": 16, "prompt_lookup_max": 4})");
  EXPECT_EQ(options.lookup_max, 4);
  EXPECT_EQ(options.lookup_min, 4);
  options = Good(R"({"method": "ngram", "num_speculative_tokens": 1, "prompt_lookup_min": 3})");
  EXPECT_EQ(options.lookup_max, 3);
  EXPECT_EQ(options.lookup_min, 3);
}

TEST(SpeculativeConfig, IsWrittenAsItIsRead) {
  const std::string text =
      R"({"method":"ngram","num_speculative_tokens":6,"prompt_lookup_max":4,"prompt_lookup_min":2})";
  EXPECT_EQ(SpeculativeConfigText(Good(text)), text);
  EXPECT_EQ(SpeculativeConfigText(NgramOptions()), "");
}

TEST(SpeculativeConfig, RefusesByName) {
  const struct {
    const char* json;
    const char* wrong;
  } cases[] = {
      {"", "JSON"},
      {"[1]", "object"},
      {R"({"num_speculative_tokens": 2})", "method"},
      {R"({"method": "eagle", "num_speculative_tokens": 2})", "method"},
      {R"({"method": 1, "num_speculative_tokens": 2})", "method"},
      {R"({"method": "ngram"})", "num_speculative_tokens"},
      {R"({"method": "ngram", "num_speculative_tokens": 0})", "num_speculative_tokens"},
      {R"({"method": "ngram", "num_speculative_tokens": 17})", "num_speculative_tokens"},
      {R"({"method": "ngram", "num_speculative_tokens": 4294967297})", "num_speculative_tokens"},
      {R"({"method": "ngram", "num_speculative_tokens": 1.5})", "num_speculative_tokens"},
      {R"({"method": "ngram", "num_speculative_tokens": "2"})", "num_speculative_tokens"},
      {R"({"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 33})", "prompt_lookup_max"},
      {R"({"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_min": 0})", "prompt_lookup_min"},
      {R"({"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 2, "prompt_lookup_min": 3})",
       "prompt_lookup_min"},
      {R"({"method": "ngram", "num_speculative_tokens": 2, "model": "draft"})", "model: is not supported"},
      {R"({"method": "ngram", "num_speculative_tokens": 2, "draft_tensor_parallel_size": 1})", "draft_tensor"},
  };
  for (const auto& [json, wrong] : cases) {
    NgramOptions options;
    EXPECT_THAT(ParseSpeculativeConfig(json, &options), HasSubstr(wrong)) << json;
  }
}

}  // namespace
}  // namespace hydrant
