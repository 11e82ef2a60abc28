#include "server/shapes/shape_vocabulary.h"

#include <gtest/gtest.h>

#include "tests/support/byte_tokenizer.h"

namespace hydrant {
namespace {

TEST(ShapeVocabulary, SpecialTokensAndEndsAddNothing) {
  // The model has ids beyond those of the tokenizer.
  const ShapeVocabulary vocabulary(std::make_shared<ByteTokenizer>(), 300, {ByteTokenizer::kEos, 'x', 999});
  EXPECT_EQ(vocabulary.BytesOf('a'), "a");
  for (const int32_t token : {int32_t{ByteTokenizer::kEos}, int32_t{ByteTokenizer::kBos}, int32_t{'x'}, 299}) {
    EXPECT_EQ(vocabulary.BytesOf(token), "") << token;
  }
  EXPECT_EQ(vocabulary.MarkupOf(ByteTokenizer::kBos), "<bos>");
  EXPECT_EQ(vocabulary.MarkupOf(299), "");
  ASSERT_EQ(vocabulary.line_ends().size(), 1u);
  EXPECT_EQ(vocabulary.line_ends()[0], '\n');
  EXPECT_TRUE(vocabulary.IsEnd('x'));
  EXPECT_FALSE(vocabulary.IsEnd(ByteTokenizer::kBos));
  EXPECT_EQ(vocabulary.ends().size(), 2u);
  EXPECT_EQ(vocabulary.words(), 10u);
  EXPECT_EQ(vocabulary.trie()->tokens().size(), 244u);
  EXPECT_FALSE(vocabulary.spells_text());
  EXPECT_TRUE(ShapeVocabulary(std::make_shared<ByteTokenizer>(), 258, {}).spells_text());
}

TEST(ShapeVocabulary, MarkersOfTheFormatThatAreSpecialHaveBytesThatNoTextHas) {
  const std::vector<std::string_view> markers = {"<eos>", "<bos>", "a", "<call>"};
  const ShapeVocabulary vocabulary(std::make_shared<ByteTokenizer>(), 258, {ByteTokenizer::kEos}, markers);
  EXPECT_EQ(vocabulary.markers(), std::vector<std::string>{"<bos>"});
  EXPECT_EQ(vocabulary.BytesOf(ByteTokenizer::kBos), "\xf6");
  EXPECT_EQ(vocabulary.BytesOf(ByteTokenizer::kEos), "");
  EXPECT_EQ(vocabulary.BytesOf('a'), "a");
  EXPECT_EQ(vocabulary.BytesOf(0xf4), "\xf4");
  EXPECT_EQ(vocabulary.BytesOf(0xf6), "") << "that byte is no text";
  EXPECT_EQ(vocabulary.trie()->tokens().size(), 246u);
  EXPECT_EQ(vocabulary.AnswerBytes("<bos>ab"),
            "\xf6"
            "ab");
  EXPECT_EQ(vocabulary.AnswerBytes("<eos>"), "<eos>") << "this tokenizer spells it";
  EXPECT_EQ(ShapeVocabulary(std::make_shared<ByteTokenizer>(), 258, {}).AnswerBytes("<bos>ab"), std::nullopt);
  const std::vector<std::string_view> end = {"<bos>"};
  EXPECT_TRUE(ShapeVocabulary(std::make_shared<ByteTokenizer>(), 258, {ByteTokenizer::kBos}, end).markers().empty());
}

}  // namespace
}  // namespace hydrant
