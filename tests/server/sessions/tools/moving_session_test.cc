#include "server/sessions/tools/moving_session.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "server/sessions/journal/crc32c.h"

namespace hydrant {
namespace {

TEST(MovingSession, IsPutTogetherFromPiecesWithItsKvInAFile) {
  SessionFile file;
  file.facts.id = "chat-1";
  file.turn = 7;
  file.past = "what was said";
  std::string kv;
  for (int i = 0; i < 3'000'000; ++i) kv.push_back(static_cast<char>(i * 7 + i / 1000));
  const std::string bytes = WriteSessionHead(file, kv.size(), Crc32c(kv)) + kv;
  MovingSessionReader reader(bytes.size());
  for (size_t at = 0; at < bytes.size(); at += 100'000) {
    ASSERT_TRUE(reader.Take(std::string_view(bytes).substr(at, 100'000)).ok());
  }
  const absl::StatusOr<MovingSession> state = reader.Finish();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->file.past, file.past);
  std::string again = state->Head();
  EXPECT_TRUE(state->kv
                  ->Read([&](std::string_view piece) {
                    EXPECT_LE(piece.size(), size_t{1} << 20);
                    again.append(piece);
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(again, bytes);
  EXPECT_EQ(state->Head(/*with_kv=*/false), WriteSessionFile(file));
  MovingSessionReader cut(bytes.size());
  ASSERT_TRUE(cut.Take(std::string_view(bytes).substr(0, bytes.size() - 1)).ok());
  EXPECT_FALSE(cut.Finish().ok());
}

}  // namespace
}  // namespace hydrant
