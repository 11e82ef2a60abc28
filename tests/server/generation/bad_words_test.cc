#include "server/generation/bad_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/support/byte_tokenizer.h"

namespace hydrant {
namespace {

using testing::ElementsAre;

// A space and the letter behind it are one token, 300 + letter; '#' has none.
class SpacedTokenizer : public ByteTokenizer {
 public:
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions&) const override {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < text.size(); ++i) {
      const bool joined = text[i] == ' ' && i + 1 < text.size();
      if (joined) ++i;
      if (text[i] != '#') ids.push_back((joined ? 300 : 0) + text[i]);
    }
    return ids;
  }
};

TEST(BadWordsTest, AWordIsBannedWithAndWithoutASpaceBeforeIt) {
  EXPECT_THAT(EncodeBadWords({"ab"}, SpacedTokenizer()).value(),
              ElementsAre(ElementsAre('a', 'b'), ElementsAre(300 + 'a', 'b')));
  EXPECT_THAT(EncodeBadWords({"  ab"}, SpacedTokenizer()).value(),
              ElementsAre(ElementsAre('a', 'b'), ElementsAre(300 + 'a', 'b')))
      << "its own spaces do not matter";
}

TEST(BadWordsTest, ASpaceThatIsATokenOfItsOwnMakesNoSecondSequence) {
  // "ab" is two tokens, " ab" three: what comes behind the space is the word again.
  EXPECT_THAT(EncodeBadWords({"ab", "c"}, ByteTokenizer()).value(),
              ElementsAre(ElementsAre('a', 'b'), ElementsAre('c')));
}

TEST(BadWordsTest, AWordWithoutATokenIsRefused) {
  for (const char* word : {" ", "#", "\t\n"}) {
    const auto encoded = EncodeBadWords({"a", word}, SpacedTokenizer());
    ASSERT_FALSE(encoded.ok()) << word;
    EXPECT_EQ(encoded.error().status, 400);
    EXPECT_EQ(encoded.error().param, "bad_words");
  }
}

}  // namespace
}  // namespace hydrant
