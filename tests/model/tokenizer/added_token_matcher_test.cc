#include "model/tokenizer/added_token_matcher.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hydrant {
namespace {

struct Options {
  bool special = false, single_word = false, lstrip = false, rstrip = false;
};

AddedToken Token(int32_t id, std::string_view content, Options options = {}) {
  AddedToken token;
  token.id = id;
  token.content = content;
  token.special = options.special;
  token.single_word = options.single_word;
  token.lstrip = options.lstrip;
  token.rstrip = options.rstrip;
  return token;
}

// Text as itself, tokens as {id}.
std::string Show(const std::vector<AddedToken>& tokens, std::string_view text,
                 const std::vector<ByteRange>& client_ranges = {}) {
  std::string shown;
  for (const auto& segment : AddedTokenMatcher(tokens).Cut(text, client_ranges)) {
    shown += segment.id >= 0 ? "{" + std::to_string(segment.id) + "}" : "[" + std::string(segment.text) + "]";
  }
  return shown;
}

TEST(AddedTokenMatcher, CutsTextAtTokens) {
  EXPECT_EQ(Show({Token(1, "<s>")}, "a<s>b<s><s>"), "[a]{1}[b]{1}{1}");
  EXPECT_EQ(Show({Token(1, "<s>")}, ""), "");
  EXPECT_EQ(Show({Token(1, "<s>")}, "<s"), "[<s]");
}

// Were white space looked through again for every token, this would take hours.
TEST(AddedTokenMatcher, AMegabyteOfSpacesThatAreTokensEnds) {
  const std::string spaces(1 << 20, ' ');
  for (const Options options :
       {Options{.lstrip = true}, Options{.rstrip = true}, Options{.lstrip = true, .rstrip = true},
        Options{.single_word = true, .rstrip = true}}) {
    EXPECT_EQ(AddedTokenMatcher({Token(1, " ", options)}).Cut(spaces, {}).size(), spaces.size());
  }
  // Other tokens between, which swallow what stands around them.
  EXPECT_EQ(Show({Token(1, "<s>", {.lstrip = true, .rstrip = true}), Token(2, " ")}, "a  <s>  <s>b"),
            "[a]{2}{2}{1}{2}{2}{1}[b]");
}

TEST(AddedTokenMatcher, PrefersTheLongestAtAPlaceAndTheLeftmostOfAll) {
  EXPECT_EQ(Show({Token(1, "ab"), Token(2, "abcd"), Token(3, "bcdef")}, "abcdef"), "{2}[ef]");
  EXPECT_EQ(Show({Token(1, "  "), Token(2, "    ")}, "       "), "{2}{1}[ ]");
}

TEST(AddedTokenMatcher, LeavesSpecialTokensOfPlainTextInTheText) {
  const std::vector<AddedToken> tokens = {Token(1, "<s>", {.special = true}), Token(2, "s>")};
  EXPECT_EQ(Show(tokens, "<s>s>"), "{1}{2}");
  // As in Hugging Face, the skipped match still hides what lies inside it.
  EXPECT_EQ(Show(tokens, "<s>s>", {{0, 5}}), "[<s>]{2}");
}

TEST(AddedTokenMatcher, OneByteOfPlainTextKeepsASpecialTokenFromBeingFound) {
  const std::vector<AddedToken> tokens = {Token(1, "<s>", {.special = true})};
  for (size_t begin = 0; begin <= 9; ++begin) {
    for (size_t end = begin; end <= 9; ++end) {
      const bool touches = begin < end && begin < 6 && end > 3;
      EXPECT_EQ(Show(tokens, "abc<s>def", {{begin, end}}), touches ? "[abc<s>def]" : "[abc]{1}[def]")
          << begin << ".." << end;
    }
  }
  EXPECT_EQ(Show(tokens, "<s><s><s><s>", {{3, 6}, {6, 6}, {9, 12}}), "{1}[<s>]{1}[<s>]");
}

TEST(AddedTokenMatcher, OtherTokensAreFoundAcrossTheBordersOfPlainText) {
  EXPECT_EQ(Show({Token(1, "    ")}, "a    b", {{2, 4}}), "[a]{1}[b]");
}

TEST(AddedTokenMatcher, PlainTextNeitherHidesNorLengthensASpecialTokenBesideIt) {
  const std::vector<AddedToken> tokens = {Token(1, "<s>", {.special = true}), Token(2, "<s>x", {.special = true}),
                                          Token(3, "a<s", {.special = true})};
  EXPECT_EQ(Show(tokens, "<s>x"), "{2}");
  EXPECT_EQ(Show(tokens, "<s>x", {{3, 4}}), "{1}[x]");
  EXPECT_EQ(Show(tokens, "a<s>", {{0, 1}}), "[a]{1}");
}

TEST(AddedTokenMatcher, SingleWordsMatchBetweenNonWordsOnly) {
  const std::vector<AddedToken> tokens = {Token(1, "cat", {.single_word = true})};
  EXPECT_EQ(Show(tokens, "cat"), "{1}");
  EXPECT_EQ(Show(tokens, "a cat!"), "[a ]{1}[!]");
  EXPECT_EQ(Show(tokens, "concat cats écat cat_"), "[concat cats écat cat_]");
}

TEST(AddedTokenMatcher, StripsSwallowWhiteSpaceThatNoTokenHasTaken) {
  EXPECT_EQ(Show({Token(1, "<m>", {.lstrip = true})}, "a \t\u00a0<m> b"), "[a]{1}[ b]");
  EXPECT_EQ(Show({Token(1, "<m>", {.rstrip = true})}, "a <m> \n b"), "[a ]{1}[b]");
  EXPECT_EQ(Show({Token(1, "<m>", {.lstrip = true, .rstrip = true})}, "<m>  <m>"), "{1}{1}");
}

TEST(AddedTokenMatcher, TakesBytesThatAreNoUtf8) {
  EXPECT_EQ(Show({Token(1, "<s>", {.single_word = true, .lstrip = true})}, "\xff<s>\xc3"), "[\xff]{1}[\xc3]");
}

TEST(AddedTokenMatcher, EmptyAndRepeatedContentsAreHarmless) {
  EXPECT_EQ(Show({Token(1, ""), Token(2, "x"), Token(3, "x")}, "axb"), "[a]{2}[b]");
  EXPECT_TRUE(AddedTokenMatcher({}).empty());
}

}  // namespace
}  // namespace hydrant
