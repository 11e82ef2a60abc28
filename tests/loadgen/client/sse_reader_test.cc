#include "loadgen/client/sse_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hydrant {
namespace {

std::vector<std::string> Read(std::string_view bytes, size_t piece) {
  SseReader reader;
  std::vector<std::string> events;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    EXPECT_TRUE(reader.Feed(bytes.substr(at, piece), [&](std::string_view data) { events.emplace_back(data); }));
  }
  return events;
}

TEST(SseReader, EventsAreTheSameHoweverTheBytesAreCut) {
  constexpr std::string_view kStream =
      ": ping\n\n"
      "data: {\"a\":1}\n\n"
      "event: x\nid: 7\ndata:no blank\n\n"
      "data: two\ndata: lines\n\n"
      "data: cr\r\n\r\n"
      "\n\n"
      "data: \n\n"
      "data: [DONE]\n\n";
  const std::vector<std::string> expected = {"{\"a\":1}", "no blank", "two\nlines", "cr", "", "[DONE]"};
  for (size_t piece = 1; piece <= kStream.size(); ++piece) EXPECT_EQ(Read(kStream, piece), expected) << piece;
}

TEST(SseReader, AWholeEventIsHandedOnWhereItLies) {
  const std::string bytes = "data: here\n\n";
  SseReader reader;
  const char* at = nullptr;
  reader.Feed(bytes, [&](std::string_view data) { at = data.data(); });
  EXPECT_EQ(at, bytes.data() + 6);
}

TEST(SseReader, AnEventThatIsCutOffIsNone) {
  EXPECT_TRUE(Read("data: half", 3).empty());
  EXPECT_TRUE(Read("data: half\n", 3).empty());
}

TEST(SseReader, RefusesAnEventWithoutEnd) {
  SseReader reader;
  const std::string piece(1 << 20, 'x');
  bool fits = true;
  size_t fed = 0;
  while (fits && fed < 2 * SseReader::kEventBytesMax) {
    fits = reader.Feed(piece, [](std::string_view) { FAIL(); });
    fed += piece.size();
  }
  EXPECT_FALSE(fits);
  EXPECT_FALSE(reader.Feed("data: a\n\n", [](std::string_view) { FAIL(); }));
}

}  // namespace
}  // namespace hydrant
