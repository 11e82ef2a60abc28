#include "server/sessions/chat_lines.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/server/sessions/idle_store.h"
#include "tests/support/byte_tokenizer.h"

namespace hydrant {
namespace {

TEST(ChatLines, AChatGoesOnWithTheLineThatItBeginsWith) {
  SessionStore sessions(IdleStore());
  const auto turn = [&](const std::string& text, const std::string& answer) {
    RequestPrompt said;
    said.text = text;
    std::optional<SessionTurn> line = BeginChatLine(sessions, {}, "auto_x", said, ByteTokenizer());
    if (!line.has_value()) return std::string("none");
    const std::string id = line->id();
    SessionPast past;
    past.tokens = ByteIds(text + answer);
    past.text = text + answer;
    past.prompt_bytes = text.size();
    if (answer != "-") line->End(std::move(past));
    return id;
  };
  EXPECT_EQ(turn("one", "1"), "auto_x_0");
  EXPECT_EQ(turn("two", "2"), "auto_x_1");
  EXPECT_EQ(turn("one1 and", "3"), "auto_x_0");
  EXPECT_EQ(turn("one1 and3 so", "4"), "auto_x_0");
  EXPECT_EQ(turn("two2", "5"), "auto_x_1");
  for (const char* text : {"a", "b", "c"}) EXPECT_NE(turn(text, "6"), "auto_x_4");
  EXPECT_EQ(sessions.List(0, "", 10).cards.size(), static_cast<size_t>(kChatLinesMax));
  std::vector<SessionTurn> busy;
  for (int i = 0; i < kChatLinesMax; ++i) {
    busy.push_back(std::move(sessions.Begin({}, "auto_x_" + std::to_string(i), true).value()));
  }
  EXPECT_EQ(turn("one", "-"), "none");
}

// What comes of it is nothing: no line is begun, and held, for that.
TEST(ChatLines, NothingIsBegunOnceTheDiskIsNeeded) {
  SessionStore sessions(IdleStore());
  bool needs_disk = true;
  RequestPrompt said;
  said.text = "one";
  const SessionOwner owner = {.needs_disk = &needs_disk};
  EXPECT_FALSE(BeginChatLine(sessions, owner, "auto_x", said, ByteTokenizer()).has_value());
  needs_disk = false;
  EXPECT_TRUE(BeginChatLine(sessions, owner, "auto_x", said, ByteTokenizer()).has_value());
}

}  // namespace
}  // namespace hydrant
