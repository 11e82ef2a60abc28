// Texts with tags, held to the definition: every text over a few letters, and every token's mask.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/model/grammar/grammar_checks.h"

namespace hydrant::grammar {
namespace {

// All texts of at most `length` bytes of `letters`, shortest first.
std::vector<std::string> TextsOver(std::string_view letters, size_t length) {
  std::vector<std::string> texts = {""};
  for (size_t i = 0; i < texts.size() && texts[i].size() < length; ++i) {
    for (const char letter : letters) texts.push_back(texts[i] + letter);
  }
  return texts;
}

void ExpectSame(const std::string& tag, std::string_view letters, size_t length,
                const std::function<bool(std::string_view)>& oracle, size_t answers_least) {
  const auto grammar = MustCompileKind(GrammarKind::kStructuralTag, tag);
  ASSERT_NE(grammar, nullptr);
  size_t answers = 0;
  for (const std::string& text : TextsOver(letters, length)) {
    const bool is_answer = IsAnswer(*grammar, text);
    ASSERT_EQ(is_answer, oracle(text)) << tag << " text '" << text << "'";
    answers += is_answer ? 1 : 0;
  }
  EXPECT_GE(answers, answers_least);
}

using Texts = std::vector<std::string>;

// Text in which the first trigger from each place on begins one of `tags`, each written out as a whole.
bool IsTagged(std::string_view text, const Texts& triggers, const Texts& tags) {
  size_t first = text.npos, length = 0;
  for (const std::string& trigger : triggers) {
    // The one that is complete first counts.
    const size_t at = text.find(trigger);
    if (at != text.npos && (first == text.npos || at + trigger.size() < first + length)) {
      first = at;
      length = trigger.size();
    }
  }
  if (first == text.npos) return true;
  for (const std::string& tag : tags) {
    if (!text.substr(first).starts_with(tag)) continue;
    if (IsTagged(text.substr(first + tag.size()), triggers, tags)) return true;
  }
  return false;
}

TEST(StructuralTag, StructuresFollowTheirTriggers) {
  ExpectSame(R"({"type":"structural_tag","triggers":["<a"],"structures":[
               {"begin":"<ab","schema":{"enum":[1,11]},"end":">"},{"begin":"<a","schema":{"const":1},"end":""}]})",
             "<ab1>", 6,
             [](std::string_view text) {
               return IsTagged(text, {"<a"}, {"<ab1>", "<ab11>", "<a1"});
             },
             10'000);
  // Triggers that overlap, and one that is part of another's rest.
  ExpectSame(R"({"triggers":["aab","ba"],"structures":[{"begin":"aab","schema":{"const":1},"end":"a"},
               {"begin":"baa","schema":{"type":"null"},"end":""},{"begin":"ba","schema":{"const":1},"end":"b"}]})",
             "ab1", 8,
             [](std::string_view text) {
               return IsTagged(text, {"aab", "ba"}, {"aab1a", "ba1b"});
             },
             1'000);
}

TEST(StructuralTag, FormatsAreBuiltOfEachOther) {
  const auto one_of = [](Texts texts) {
    return [texts](std::string_view text) {
      for (const std::string& each : texts) {
        if (text == each) return true;
      }
      return false;
    };
  };
  ExpectSame(R"({"format":{"type":"sequence","elements":[{"type":"const_string","value":"a"},
               {"type":"or","elements":[{"type":"json_schema","json_schema":{"enum":[1,12]}},{"type":"regex","pattern":"b?"}]},
               {"type":"const_string","value":"2"}]}})",
             "ab12", 6, one_of({"a12", "a122", "ab2", "a2"}), 4);
  // A number goes on as long as it can, and no longer.
  ExpectSame(
      R"({"format":{"type":"tag","begin":"<","content":{"type":"json_schema","json_schema":{"type":"integer"}},"end":"1"}})",
      "<01-", 5, one_of({"<01", "<11", "<-11", "<101", "<111", "<1001", "<1011", "<1101", "<1111", "<-101", "<-111"}),
      11);
  ExpectSame(
      R"({"format":{"type":"tag","begin":"<","content":{"type":"any_text","excludes":["b"]},"end":["aa","ac"]}})",
      "<abc", 6,
      [](std::string_view text) {
        if (!text.starts_with("<")) return false;
        const size_t end = std::min(text.find("aa"), text.find("ac"));
        return end != text.npos && end + 2 == text.size() && text.find('b') == text.npos;
      },
      30);
}

TEST(StructuralTag, FreeTextEndsWithTheFirstTextBehindIt) {
  ExpectSame(
      R"({"format":{"type":"sequence","elements":[{"type":"any_text"},{"type":"const_string","value":"aba"},{"type":"any_text"}]}})",
      "ab", 8, [](std::string_view text) { return text.find("aba") != text.npos; }, 100);
  ExpectSame(R"({"format":{"type":"triggered_tags","triggers":["<"],"at_least_one":true,"stop_after_first":true,
               "tags":[{"type":"tag","begin":"<a","content":{"type":"any_text"},"end":">"}]}})",
             "<a>", 6,
             [](std::string_view text) { return text.starts_with("<a") && text.find('>') == text.size() - 1; }, 15);
  ExpectSame(R"x({"format":{"type":"tag","begin":"(","end":")","content":{"type":"triggered_tags","triggers":["<"],
               "tags":[{"begin":"<","content":{"type":"any_text"},"end":">"}]}}})x",
             "(<)>", 7,
             [](std::string_view text) {
               if (!text.starts_with("(")) return false;
               bool inside = false;
               for (size_t i = 1; i < text.size(); ++i) {
                 if (!inside && text[i] == ')') return i + 1 == text.size();
                 inside = inside ? text[i] != '>' : text[i] == '<';
               }
               return false;
             },
             200);
  const auto separated = [](bool least, bool stops) {
    return R"({"format":{"type":"tags_with_separator","separator":",","at_least_one":)" +
           std::string(least ? "true" : "false") + R"(,"stop_after_first":)" + (stops ? "true" : "false") +
           R"(,"tags":[{"begin":"a","content":{"type":"const_string","value":"b"},"end":""},{"begin":"b","content":{"type":"regex","pattern":"a*"},"end":"b"}]}})";
  };
  const auto is_list = [](std::string_view text, size_t least, size_t most) {
    size_t count = 0;
    for (size_t at = 0; !text.empty() && at <= text.size(); ++count) {
      const size_t end = std::min(text.find(',', at), text.size());
      const std::string_view one = text.substr(at, end - at);
      const bool is_b = one.size() >= 2 && one.front() == 'b' && one.back() == 'b' &&
                        one.substr(1, one.size() - 2).find_first_not_of('a') == one.npos;
      if (one != "ab" && !is_b) return false;
      at = end + 1;
    }
    return count >= least && count <= most;
  };
  for (const bool least : {false, true}) {
    for (const bool stops : {false, true}) {
      ExpectSame(
          separated(least, stops), "ab,", 8,
          [&](std::string_view text) { return is_list(text, least ? 1 : 0, stops ? 1 : 99); }, stops ? 4 : 30);
    }
  }
}

// Texts that are there twice are there once: else each place in the longest of them has a copy of all the others.
TEST(StructuralTag, TextsThatRepeatTakeNoMemory) {
  const auto array = [](int copies, const std::string& rest) {
    std::string texts = "[";
    for (int i = 0; i < copies; ++i) texts += "\"a\",";
    return texts + rest + "]";
  };
  const std::string tail = "\"" + std::string(4096, 'a') + "\"";
  const auto free = MustCompileKind(GrammarKind::kStructuralTag,
                                    R"({"format":{"type":"any_text","excludes":)" + array(4000, tail) + "}}");
  ASSERT_NE(free, nullptr);
  EXPECT_LT(free->bytes(), size_t{1} << 20);
  // The table of what is excluded counts.
  EXPECT_GT(free->bytes(), size_t{4096} * 3 * sizeof(int32_t));
  EXPECT_TRUE(IsAnswer(*free, "bbb"));
  EXPECT_FALSE(IsAnswer(*free, "ba"));
  const auto tags = MustCompileKind(GrammarKind::kStructuralTag,
                                    R"({"format":{"type":"triggered_tags","triggers":)" + array(4095, "\"a\"") +
                                        R"(,"tags":[{"begin":"ab","content":{"type":"any_text"},"end":["c","c"]}]}})");
  ASSERT_NE(tags, nullptr);
  EXPECT_LT(tags->bytes(), size_t{1} << 20);
  EXPECT_TRUE(IsAnswer(*tags, "xabyc"));
  EXPECT_FALSE(IsAnswer(*tags, "xac"));
}

// A table that is as large as it may be takes much of the work that one shape may cost.
TEST(StructuralTag, LargeTablesTakeTheWork) {
  std::string text;
  for (int i = 0; i < 250; ++i)
    text += static_cast<char>('!' + i % 90 == '"' || '!' + i % 90 == '\\' ? 'a' : '!' + i % 90);
  std::string elements;
  for (int i = 0; i < 9; ++i) {
    elements += std::string(i == 0 ? "" : ",") + R"({"type":"any_text","excludes":[)";
    for (int j = 0; j < 30; ++j) elements += std::string(j == 0 ? "\"" : ",\"") + std::to_string(j) + text + "\"";
    elements += "]}";
  }
  const std::string tag = R"({"format":{"type":"sequence","elements":[)" + elements + "]}}";
  EXPECT_EQ(MustRefuseKind(GrammarKind::kStructuralTag, tag).kind, RefusalKind::kTooComplex);
}

TEST(StructuralTag, WhatCannotBeEnforcedIsRefusedByName) {
  const auto refused = [](const std::string& tag, std::string_view pointer, std::string_view text) {
    const Refusal refusal = MustRefuseKind(GrammarKind::kStructuralTag, tag);
    EXPECT_EQ(refusal.pointer, pointer) << tag;
    EXPECT_NE(refusal.text.find(text), std::string::npos) << tag << ": " << refusal.text;
  };
  refused("[1]", "", "object");
  refused("{", "", "not JSON");
  refused("{}", "", "'triggers' must be");
  refused(R"({"type":"other","format":{}})", "/type", "structural_tag");
  refused(R"({"format":{"type":"token"}})", "/format/type", "'token' is not supported");
  refused(R"({"format":{"type":"any_text","max":3}})", "/format/max", "'max' is not supported");
  refused(R"({"triggers":[""],"structures":[]})", "/triggers/0", "not empty");
  refused(R"({"triggers":["<"],"structures":[]})", "/structures", "not be empty");
  refused(R"({"triggers":["<","("],"structures":[{"begin":"<","schema":{},"end":""}]})", "/triggers", "nothing begins");
  refused(R"({"triggers":["("],"structures":[{"begin":"<","schema":{},"end":""}]})", "/structures/0", "no trigger");
  refused(
      R"({"triggers":["<"],"structures":[{"begin":"<","schema":{"properties":{"a":{"uniqueItems":true}}},"end":""}]})",
      "/structures/0/schema/properties/a", "uniqueItems");
  refused(R"x({"format":{"type":"sequence","elements":[{"type":"regex","pattern":"(?=a)"}]}})x",
          "/format/elements/0/pattern", "look-around");
  refused(R"({"format":{"type":"tag","begin":"","content":{"type":"any_text"},"end":3}})", "/format/end",
          "must be a string");
  refused(R"({"format":{"type":"any_text","excludes":[")" + std::string(9000, 'a') + "\"]}}", "/format/excludes",
          "more than 8192");
}

}  // namespace
}  // namespace hydrant::grammar
