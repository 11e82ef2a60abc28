// Rules against what Hugging Face `tokenizers` 0.23 gives; tests/hugging_face compares at random.
#include "model/tokenizer/normalizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

using NormalizerKind = NormalizerStep::Kind;

std::string Apply(const std::vector<NormalizerStep>& steps, std::string_view text, std::vector<ByteRange>& ranges) {
  const auto normalizer = Normalizer::Create(steps, "t.json");
  EXPECT_THAT(normalizer, IsOk());
  return normalizer.ok() ? normalizer->Apply(text, ranges) : "";
}

std::string Apply(const std::vector<NormalizerStep>& steps, std::string_view text) {
  std::vector<ByteRange> none;
  return Apply(steps, text, none);
}

struct Case {
  const char* name;
  std::vector<NormalizerStep> steps;
  std::string text, normalized;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class NormalizerSteps : public testing::TestWithParam<Case> {};
TEST_P(NormalizerSteps, ChangeText) { EXPECT_EQ(Apply(GetParam().steps, GetParam().text), GetParam().normalized); }
INSTANTIATE_TEST_SUITE_P(
    , NormalizerSteps,
    testing::Values(
        Case{"Nothing", {}, " Ab\xff", " Ab\xff"},
        Case{"Nfc", {{NormalizerKind::kNfc}}, "e\u0301 \u212b \xff", "é Å \xff"},
        Case{"Nfd", {{NormalizerKind::kNfd}}, "é\xc3", "e\u0301\xc3"},
        Case{"Nfkc", {{NormalizerKind::kNfkc}}, "ﬁ ½ \u00a0", "fi 1⁄2  "},
        Case{"Nfkd", {{NormalizerKind::kNfkd}}, "ﬁé", "fie\u0301"},
        Case{"Lowercase", {{NormalizerKind::kLowercase}}, "AÉİΣ\xff", "aéi\u0307σ\xff"},
        Case{"StripAccents", {{NormalizerKind::kNfd}, {NormalizerKind::kStripAccents}}, "déjà", "deja"},
        Case{"Strip", {{.kind = NormalizerKind::kStrip, .left = true, .right = true}}, " \u3000a b\n", "a b"},
        Case{"StripLeft", {{.kind = NormalizerKind::kStrip, .left = true}}, " a ", "a "},
        Case{"StripRight", {{.kind = NormalizerKind::kStrip, .right = true}}, " a ", " a"},
        Case{"StripAll", {{.kind = NormalizerKind::kStrip, .left = true, .right = true}}, "  ", ""},
        Case{"StripRightAll", {{.kind = NormalizerKind::kStrip, .right = true}}, "  ", ""},
        Case{"Replace", {{.kind = NormalizerKind::kReplace, .pattern = "ab", .content = "x"}}, "abababb", "xxxb"},
        Case{"ReplaceRegex",
             {{.kind = NormalizerKind::kReplaceRegex, .pattern = " {2,}", .content = "_"}},
             "a  b c   \xff  ",
             "a_b c_\xff_"},
        Case{"Prepend", {{.kind = NormalizerKind::kPrepend, .content = "_"}}, "a", "_a"},
        Case{"PrependToNothing", {{.kind = NormalizerKind::kPrepend, .content = "_"}}, "", ""},
        Case{"InOrder",
             {{.kind = NormalizerKind::kPrepend, .content = " "},
              {.kind = NormalizerKind::kReplace, .pattern = " ", .content = "▁"}},
             "a b",
             "▁a▁b"}),
    [](const auto& test) { return test.param.name; });

TEST(Normalizer, RefusesWhatHasNoMeaningOrNoBound) {
  EXPECT_THAT(Normalizer::Create({{.kind = NormalizerKind::kReplace}}, "t.json"),
              RefusedWith("replaces an empty string"));
  EXPECT_THAT(Normalizer::Create(std::vector<NormalizerStep>(17), "t.json"), RefusedWith("at most 16"));
  EXPECT_THAT(Normalizer::Create({{.kind = NormalizerKind::kReplaceRegex, .pattern = "("}}, "t.json"),
              RefusedWith("split pattern"));
}

TEST(Normalizer, TellsHowMuchLongerItMakesText) {
  const std::vector<NormalizerStep> steps = {{.kind = NormalizerKind::kNfkc},
                                             {.kind = NormalizerKind::kReplace, .pattern = " ", .content = "▁"},
                                             {.kind = NormalizerKind::kReplace, .pattern = "abc", .content = "a"},
                                             {.kind = NormalizerKind::kReplaceRegex, .pattern = "x?", .content = "y"}};
  EXPECT_EQ(Normalizer::Create(steps, "t.json")->growth(), 11 * 3 * 1 * 3);
  // What it tells is never less than what happens.
  std::vector<ByteRange> ranges;
  const auto normalizer = Normalizer::Create(steps, "t.json");
  for (const std::string_view text : {" ", "\uFDFA", "b", "\u0390"}) {
    EXPECT_LE(static_cast<double>(normalizer->Apply(text, ranges).size()),
              normalizer->growth() * static_cast<double>(text.size()))
        << text;
  }
}

struct Moves {
  const char* name;
  std::vector<NormalizerStep> steps;
  std::string text;
  std::vector<ByteRange> before, after;
};
void PrintTo(const Moves& moves, std::ostream* out) { *out << moves.name; }

class NormalizerRanges : public testing::TestWithParam<Moves> {};
TEST_P(NormalizerRanges, MoveAlong) {
  std::vector<ByteRange> ranges = GetParam().before;
  EXPECT_EQ(Apply(GetParam().steps, GetParam().text, ranges), Apply(GetParam().steps, GetParam().text));
  ASSERT_EQ(ranges.size(), GetParam().after.size());
  for (size_t i = 0; i < ranges.size(); ++i) {
    EXPECT_EQ(ranges[i].begin, GetParam().after[i].begin);
    EXPECT_EQ(ranges[i].end, GetParam().after[i].end);
  }
}
const std::vector<NormalizerStep> kNfc = {{NormalizerKind::kNfc}};
INSTANTIATE_TEST_SUITE_P(
    , NormalizerRanges,
    testing::Values(Moves{"Ascii", kNfc, "abc", {{1, 2}}, {{1, 2}}},
                    Moves{"Inside", kNfc, "<b>e\u0301e\u0301<b>", {{3, 9}}, {{3, 7}}},
                    Moves{"Behind", kNfc, "e\u0301<b>", {{4, 5}}, {{3, 4}}},
                    // The mark belongs to the letter before the range.
                    Moves{"MarkFirst", kNfc, "e\u0301x", {{1, 3}}, {{0, 2}}},
                    Moves{"TwoInACharacter", kNfc, "e\u0301x", {{0, 1}, {1, 3}}, {{0, 2}}},
                    Moves{"Wide", kNfc, "\u4e2d\u4e2dx", {{3, 3}, {3, 6}}, {{0, 6}}},
                    Moves{"Invalid", kNfc, "\xff\xe2\x82x", {{1, 3}}, {{0, 3}}}, Moves{"None", kNfc, "é", {}, {}},
                    Moves{"Prepend", {{.kind = NormalizerKind::kPrepend, .content = "▁"}}, "ab", {{0, 1}}, {{3, 4}}},
                    Moves{"Replace",
                          {{.kind = NormalizerKind::kReplace, .pattern = " ", .content = "▁"}},
                          "a b c",
                          {{0, 2}, {4, 5}},
                          {{0, 4}, {8, 9}}},
                    Moves{"ReplaceAcross",
                          {{.kind = NormalizerKind::kReplace, .pattern = "ab", .content = "x"}},
                          "1ab2",
                          {{2, 4}},
                          {{1, 3}}},
                    Moves{"Strip",
                          {{.kind = NormalizerKind::kStrip, .left = true, .right = true}},
                          "  ab  ",
                          {{0, 3}, {5, 6}},
                          {{0, 1}}},
                    Moves{"Lowercase", {{NormalizerKind::kLowercase}}, "İAİ", {{2, 3}}, {{3, 4}}}),
    [](const auto& test) { return test.param.name; });

TEST(Normalized, PutsMarksInOrderInTimeLinearInTheirNumber) {
  EXPECT_EQ(Normalized("q\u0307\u0323", NormalForm::kNfc), "q\u0323\u0307");
  EXPECT_EQ(Normalized("a\u030a", NormalForm::kNfc), "å");
  EXPECT_EQ(Normalized("\u1112\u1161\u11ab", NormalForm::kNfc), "한");
  std::string marks = "a";
  for (int i = 0; i < 100'000; ++i) marks += i % 2 == 0 ? "\u0307" : "\u0323";
  const std::string normalized = Normalized(marks, NormalForm::kNfc);
  EXPECT_EQ(normalized.size(), marks.size());  // a and the first dot below become ạ: 3 bytes for 1 + 2
  EXPECT_TRUE(normalized.starts_with("ạ\u0323"));
}

}  // namespace
}  // namespace hydrant
