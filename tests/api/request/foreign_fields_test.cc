#include "api/request/foreign_fields.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/request/chat_request.h"
#include "api/request/completion_request.h"
#include "tests/support/markdown_table.h"

namespace hydrant {
namespace {

std::string NeutralWords(NeutralValue neutral) {
  switch (neutral) {
    case NeutralValue::kZero:
      return ", other than 0";
    case NeutralValue::kOne:
      return ", other than 1";
    case NeutralValue::kMinusOne:
      return ", other than -1";
    case NeutralValue::kFalse:
      return ", other than false";
    case NeutralValue::kTrue:
      return ", other than true";
    case NeutralValue::kEmpty:
      return ", unless empty";
    case NeutralValue::kMedium:
      return ", other than medium";
    default:
      return "";
  }
}

std::string Row(const ForeignField& field) {
  const std::string note(field.note);
  const std::string what = field.ignored() ? absl::StrCat("ignored: ", note)
                                           : absl::StrCat("refused", NeutralWords(field.neutral),
                                                          note.empty() ? "" : absl::StrCat("; use `", note, "`"));
  return absl::StrCat("| `", std::string(field.name), "` | ", std::string(field.origin), " | ", what, " |");
}

// The same bodies with which a client would ask either endpoint.
std::optional<ApiError> OfCompletion(std::string_view member) {
  const auto request =
      ParseCompletionRequest(absl::StrCat(R"({"prompt":"hi",)", std::string(member), "}"), RequestContext());
  return request.ok() ? std::nullopt : std::optional(request.error());
}
std::optional<ApiError> OfChat(std::string_view member) {
  const auto request = ParseChatRequest(
      absl::StrCat(R"({"messages":[{"role":"user","content":"hi"}],)", std::string(member), "}"), RequestContext());
  return request.ok() ? std::nullopt : std::optional(request.error());
}

TEST(ForeignFieldsTest, ThePageHasEveryFieldAsItIsInTheTable) {
  std::vector<std::string> expected;
  for (const ForeignField& field : ForeignFields()) expected.push_back(Row(field));
  EXPECT_EQ(RowsOfPage("docs/compatibility.md", "| field | known to | here |"), expected);
}

TEST(ForeignFieldsTest, EveryFieldIsRefusedByNameOrChangesNothing) {
  for (const ForeignField& field : ForeignFields()) {
    for (const char* value : {"7", "0.37", "\"x\"", "[1]", R"({"a":1})"}) {
      const std::string member = absl::StrCat("\"", std::string(field.name), "\":", value);
      SCOPED_TRACE(member);
      for (const std::optional<ApiError>& error : {OfCompletion(member), OfChat(member)}) {
        ASSERT_EQ(error.has_value(), !field.ignored());
        if (!error.has_value()) continue;
        EXPECT_EQ(error->status, 400);
        EXPECT_EQ(error->code, "unsupported");
        EXPECT_EQ(error->param, field.name);
        EXPECT_NE(error->message.find(std::string(field.note)), std::string::npos) << error->message;
      }
    }
  }
}

TEST(ForeignFieldsTest, ValuesThatAskForNothingPass) {
  for (const char* member :
       {R"("mirostat":0)", R"("repeat_penalty":1.0)", R"("top_n_sigma":-1)", R"("watermark":false)",
        R"("do_sample":true)", R"("stop_sequences":[])", R"("sampling_params":{})", R"("format":"")",
        R"("n_probs":false)", R"("n_predict":null)", R"("metadata":{"a":"b"})", R"("cache_prompt":false)",
        R"("verbosity":"medium")", R"("adaptive_target":-1.0)", R"("parse_tool_calls":true)"}) {
    SCOPED_TRACE(member);
    const std::optional<ApiError> error = OfCompletion(member);
    EXPECT_FALSE(error.has_value()) << error->message;
  }
  for (const char* member : {R"("mirostat":1)", R"("repeat_penalty":"1")", R"("watermark":0)", R"("do_sample":false)",
                             R"("stop_sequences":["a"])", R"("num_beams":2)", R"("verbosity":"high")"}) {
    EXPECT_TRUE(OfCompletion(member).has_value()) << member;
  }
}

TEST(ForeignFieldsTest, NamesAreUniqueAndInOrder) {
  std::set<std::string_view> names;
  std::string_view origin, name;
  for (const ForeignField& field : ForeignFields()) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
    EXPECT_TRUE(field.origin != origin || name < field.name) << field.name;
    origin = field.origin;
    name = field.name;
    EXPECT_FALSE(field.ignored() && field.note.empty()) << field.name;
    EXPECT_EQ(field.note.find_first_of("|\n"), std::string_view::npos) << field.name;
  }
}

// kv, its parts and stream_options belong to this server or are closed lists: a member that is misspelled is no wish of another.
TEST(ForeignFieldsTest, MembersOfOwnObjectsMustBeKnown) {
  struct Case {
    const char* member;
    const char* param;
  };
  for (const Case& c :
       {Case{R"("kv":{"replay":"x"})", "kv.replay"}, Case{R"("kv":{"zz":1,"bugdet":1})", "kv.bugdet"},
        Case{R"("kv":{"budget":{"ratio_of_prompt":0.5,"x":1}})", "kv.budget.x"},
        Case{R"("kv":{"cadence":{"periodic":4,"beta":1}})", "kv.cadence.beta"}, Case{R"("kv":{"a\u0000b":1})", "kv"},
        Case{R"("stream":true,"stream_options":{"usage":true})", "stream_options.usage"}}) {
    SCOPED_TRACE(c.member);
    for (const std::optional<ApiError>& error : {OfCompletion(c.member), OfChat(c.member)}) {
      ASSERT_TRUE(error.has_value());
      EXPECT_EQ(error->code, "unknown_field") << error->message;
      EXPECT_EQ(error->param, c.param);
    }
  }
  EXPECT_FALSE(OfChat(R"("kv":{"replay":null})").has_value()) << "null is absent";
  EXPECT_FALSE(OfChat(R"("stream":true,"stream_options":{"include_obfuscation":false})").has_value());
}

}  // namespace
}  // namespace hydrant
