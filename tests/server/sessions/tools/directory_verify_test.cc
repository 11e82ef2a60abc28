// Verify on files that are not what was written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "server/process/exit_codes.h"
#include "server/sessions/tools/directory_place.h"
#include "tests/server/sessions/tools/sessions_on_disk.h"

namespace hydrant {
namespace {

using testing::HasSubstr;

std::string SegmentOf(const std::string& directory) {
  for (const auto& entry : std::filesystem::directory_iterator(directory + "/log")) {
    if (entry.path().extension() == ".seg") return entry.path().string();
  }
  return "";
}

void Flip(const std::string& path, int64_t offset) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(offset);
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(offset);
  file.put(byte);
}

class DirectoryVerify : public DirectoryTools {};

TEST_F(DirectoryVerify, VerifyFindsWhatIsNotWhatWasWritten) {
  const ToolRun sound = Run("verify");
  EXPECT_EQ(sound.exit_code, kExitOk);
  EXPECT_THAT(sound.out, HasSubstr("3 sessions in 5 records"));
  const std::string segment = SegmentOf(disk_.path());
  const auto size = static_cast<int64_t>(std::filesystem::file_size(segment));
  for (int64_t at = 0; at < size; at += 13) {
    Flip(segment, at);
    const ToolRun run = Run("verify");
    EXPECT_EQ(run.exit_code, kExitIncomplete) << "byte " << at << ": " << run.out;
    EXPECT_THAT(run.out, HasSubstr(".seg at byte "));
    Flip(segment, at);
  }
  Flip(segment, size - 1);  // of the text of other/a
  EXPECT_THAT(Run("verify").out, HasSubstr("session other/a: a checksum does not fit"));
  EXPECT_THAT(Run("verify", {"--json"}).out, HasSubstr(R"("damaged":2,"damages":[{"where":")"));
  const ToolRun run = Run("export", {"--all", "--output", temp_.File("out")});
  EXPECT_EQ(run.exit_code, kExitIncomplete);
  EXPECT_THAT(run.error, HasSubstr("exported 2 of 3 sessions"));
}

TEST_F(DirectoryVerify, AWriteThatDidNotEndIsNoDamage) {
  const std::string segment = SegmentOf(disk_.path());
  std::filesystem::resize_file(segment, std::filesystem::file_size(segment) - 3);
  // As after a kill: there is no checkpoint that knows better.
  for (const auto& entry : std::filesystem::directory_iterator(disk_.path() + "/log")) {
    if (entry.path().extension() == ".idx") std::filesystem::remove(entry.path());
  }
  const ToolRun run = Run("verify");
  EXPECT_EQ(run.exit_code, kExitOk) << run.out;
  EXPECT_THAT(run.out, HasSubstr("bytes are of writes that were not finished"));
}

}  // namespace
}  // namespace hydrant
