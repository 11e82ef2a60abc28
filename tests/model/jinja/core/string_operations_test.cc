#include "model/jinja/core/string_operations.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/jinja/core/workspace.h"

namespace hydrant::jinja {
namespace {

TEST(StringOperations, SearchFindsWhatTheNaiveSearchFinds) {
  Workspace workspace{Limits()};
  const std::string alphabet = "ab";
  std::vector<std::string> words = {""};
  for (size_t i = 0; words[i].size() < 7; ++i) {
    for (const char c : alphabet) words.push_back(words[i] + c);
  }
  for (const std::string& text : words) {
    for (const std::string& sought : words) {
      if (sought.empty() || sought.size() > 3) continue;
      Search left(workspace, text, sought), right(workspace, text, sought, true);
      for (size_t at = 0; (at = text.find(sought, at)) != std::string::npos; at += sought.size()) {
        EXPECT_EQ(left.Next(), at) << text << ", " << sought;
      }
      EXPECT_EQ(left.Next(), std::nullopt);
      for (size_t end = text.size(); end >= sought.size();) {
        const size_t at = text.rfind(sought, end - sought.size());
        if (at == std::string::npos) break;
        EXPECT_EQ(right.Next(), at) << text << ", " << sought;
        end = at;
      }
      EXPECT_EQ(right.Next(), std::nullopt);
    }
  }
}

TEST(StringOperations, FindsNothingInNothingButNothing) {
  Workspace workspace{Limits()};
  for (const bool from_right : {false, true}) {
    EXPECT_EQ(Search(workspace, "", "", from_right).Next(), 0u);
    EXPECT_EQ(Search(workspace, "", "a", from_right).Next(), std::nullopt);
    EXPECT_EQ(Search(workspace, "ab", "", from_right).Next(), from_right ? 2u : 0u);
  }
}

TEST(StringOperations, CountsCharactersAsPythonDoes) {
  Workspace workspace{Limits()};
  EXPECT_EQ(CharacterCount(workspace, ""), 0u);
  EXPECT_EQ(CharacterCount(workspace, "a\xC3\xA9\xF0\x9F\x98\x80"), 3u);
  EXPECT_EQ(CharacterOffset(workspace, "a\xC3\xA9z", 0), 0u);
  EXPECT_EQ(CharacterOffset(workspace, "a\xC3\xA9z", 2), 3u);
  EXPECT_EQ(CharacterOffset(workspace, "a\xC3\xA9z", 9), 4u);
}

}  // namespace
}  // namespace hydrant::jinja
