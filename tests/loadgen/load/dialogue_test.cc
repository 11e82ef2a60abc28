#include "loadgen/load/dialogue.h"

#include <gtest/gtest.h>

namespace hydrant {
namespace {

RequestStyle Style(bool chat, std::string_view extra = "") { return *MakeRequestStyle(chat, "m", "{}", extra); }

Conversation TwoTurns() {
  Conversation conversation;
  conversation.system = "sys";
  conversation.system_tokens = 1;
  conversation.turns = {{.text = "a \"b\"", .input_tokens = 3, .output_tokens_max = 7},
                        {.text = "c", .input_tokens = 1, .output_tokens_max = 8}};
  return conversation;
}

constexpr const char* kHead = R"({"model":"m","stream":true,"stream_options":{"include_usage":true})";

TEST(Dialogue, AChatCarriesItsHistory) {
  const RequestStyle style = Style(true);
  Dialogue dialogue(&style, TwoTurns());
  EXPECT_EQ(dialogue.NextBody(),
            std::string(kHead) +
                R"(,"messages":[{"role":"system","content":"sys"},{"role":"user","content":"a \"b\""}])" +
                R"(,"max_completion_tokens":7})");
  EXPECT_EQ(dialogue.prompt_tokens(), 4);
  dialogue.AddAnswer(R"(\u00e9\n)");
  EXPECT_EQ(
      dialogue.NextBody(),
      std::string(kHead) + R"(,"messages":[{"role":"system","content":"sys"},{"role":"user","content":"a \"b\""},)" +
          R"({"role":"assistant","content":"\u00e9\n"},{"role":"user","content":"c"}],"max_completion_tokens":8})");
  EXPECT_EQ(dialogue.prompt_tokens(), 12);
}

TEST(Dialogue, APromptGrows) {
  const RequestStyle style = Style(false);
  Dialogue dialogue(&style, TwoTurns());
  EXPECT_EQ(dialogue.NextBody(), std::string(kHead) + R"(,"prompt":"sysa \"b\"","max_tokens":7})");
  dialogue.AddAnswer("x");
  EXPECT_EQ(dialogue.NextBody(), std::string(kHead) + R"(,"prompt":"sysa \"b\"\nx\nc","max_tokens":8})");
}

TEST(Dialogue, TokenIdsGoAsTheyAre) {
  const RequestStyle style = Style(false);
  Conversation conversation;
  conversation.turns = {{.token_ids = {5, 6}, .input_tokens = 2, .output_tokens_max = 1}};
  Dialogue dialogue(&style, conversation);
  EXPECT_EQ(dialogue.NextBody(), std::string(kHead) + R"(,"prompt":[5,6],"max_tokens":1})");
}

TEST(Dialogue, ExtraMembersWin) {
  const RequestStyle style = *MakeRequestStyle(false, "m", R"({"temperature":0.5})",
                                               R"({"temperature":1,"max_tokens":3,"kv":{"policy":"h2o"}})");
  Conversation conversation;
  conversation.turns = {{.text = "x", .output_tokens_max = 9}};
  Dialogue dialogue(&style, conversation);
  EXPECT_EQ(dialogue.NextBody(),
            std::string(kHead) + R"(,"temperature":1,"max_tokens":3,"kv":{"policy":"h2o"},"prompt":"x"})");
}

TEST(Dialogue, RefusesMembersThatAreNoObject) {
  for (const char* extra : {"[]", "x", "{", "5"}) EXPECT_FALSE(MakeRequestStyle(false, "m", "{}", extra).ok()) << extra;
}

}  // namespace
}  // namespace hydrant
