// What is around the model of a tokenizer.json. Refusals are with the rest of the file's, in tokenizer_json_test.cc.
#include "model/vocabulary/tokenizer_pipeline.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/vocabulary/tokenizer_json.h"
#include "tests/model/checkpoint/tiny_directory.h"
#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

using nlohmann::json;

// The spec of the parts in `changes`, the others being those of the tiny tokenizer.
TokenizerSpec Read(const json& changes) {
  json from = TinyTokenizerJson();
  from["normalizer"] = nullptr;
  from.update(changes);
  const auto document = JsonDocument::Parse(from.dump(), kTokenizerJsonLimits, "t.json");
  TokenizerSpec spec;
  EXPECT_THAT(ReadTokenizerPipeline(document->root(), 300, spec), IsOk());
  return spec;
}

TEST(TokenizerPipeline, ReadsNormalizersInOrder) {
  const auto steps = Read({{"normalizer", json::parse(R"({"type": "Sequence", "normalizers": [
      {"type": "NFKC"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": true, "strip_right": false},
      {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "_"}]},
      {"type": "Replace", "pattern": {"String": " "}, "content": "_"},
      {"type": "Replace", "pattern": {"Regex": " +"}, "content": ""}]})")}})
                         .normalizer;
  using Kind = NormalizerStep::Kind;
  ASSERT_EQ(steps.size(), 6u);
  const Kind kinds[] = {Kind::kNfkc,    Kind::kLowercase, Kind::kStrip,
                        Kind::kPrepend, Kind::kReplace,   Kind::kReplaceRegex};
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(steps[i].kind, kinds[i]) << i;
  EXPECT_TRUE(steps[2].left);
  EXPECT_FALSE(steps[2].right);
  EXPECT_EQ(steps[3].content, "_");
  EXPECT_EQ(steps[5].pattern, " +");
}

TEST(TokenizerPipeline, ATextWithoutPreTokenizerIsOneWordOfCharacters) {
  const TokenizerSpec spec = Read({{"pre_tokenizer", nullptr}});
  EXPECT_TRUE(spec.stages.empty());
  EXPECT_FALSE(spec.byte_level);
}

struct Scheme {
  const char* name;
  const char* fields;
  SplitStage::Prefix prefix;
  bool cuts;
};
void PrintTo(const Scheme& scheme, std::ostream* out) { *out << scheme.name; }
class MetaspaceSchemes : public testing::TestWithParam<Scheme> {};
TEST_P(MetaspaceSchemes, AreRead) {
  json part = json::parse(GetParam().fields);
  part["type"] = "Metaspace";
  const TokenizerSpec spec = Read({{"pre_tokenizer", part}, {"decoder", part}});
  ASSERT_EQ(spec.stages.size(), 1u);
  EXPECT_EQ(spec.stages[0].pattern, "▁");
  EXPECT_EQ(spec.stages[0].prefix, GetParam().prefix);
  EXPECT_EQ(spec.stages[0].cuts, GetParam().cuts);
  EXPECT_EQ(spec.decoder[0].drops_first, GetParam().prefix != SplitStage::Prefix::kNever);
}
INSTANTIATE_TEST_SUITE_P(, MetaspaceSchemes,
                         testing::Values(Scheme{"Plain", "{}", SplitStage::Prefix::kAlways, true},
                                         Scheme{"First", R"({"prepend_scheme": "first", "split": false})",
                                                SplitStage::Prefix::kFirst, false},
                                         Scheme{"Never", R"({"replacement": "▁", "prepend_scheme": "never"})",
                                                SplitStage::Prefix::kNever, true},
                                         Scheme{"Always", R"({"add_prefix_space": true, "prepend_scheme": "always"})",
                                                SplitStage::Prefix::kAlways, true},
                                         Scheme{"Old", R"({"add_prefix_space": false})", SplitStage::Prefix::kNever,
                                                true}),
                         [](const auto& test) { return test.param.name; });

TEST(TokenizerPipeline, ReadsTheDecoderOfLlama) {
  const auto steps = Read({{"decoder", json::parse(R"({"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
      {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})")}})
                         .decoder;
  using Kind = DecoderStep::Kind;
  ASSERT_EQ(steps.size(), 4u);
  const Kind kinds[] = {Kind::kReplace, Kind::kByteFallback, Kind::kFuse, Kind::kStrip};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(steps[i].kind, kinds[i]) << i;
  EXPECT_EQ(steps[3].start, 1);
}

TEST(TokenizerPipeline, ALaterProcessorWrapsWhatTheEarlierMade) {
  const TokenizerSpec spec = Read({{"post_processor", json::parse(R"({"type": "Sequence", "processors": [
      {"type": "ByteLevel"},
      {"type": "RobertaProcessing", "cls": ["a", 1], "sep": ["b", 2]},
      {"type": "BertProcessing", "cls": ["c", 3], "sep": ["d", 4]}]})")}});
  EXPECT_EQ(spec.prefix_ids, (std::vector<int32_t>{3, 1}));
  EXPECT_EQ(spec.suffix_ids, (std::vector<int32_t>{2, 4}));
}

}  // namespace
}  // namespace hydrant
