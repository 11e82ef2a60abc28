#include "server/sessions/journal/log_directory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

class LogDirectoryTest : public testing::Test {
 protected:
  const TempDir temp_;
  const std::unique_ptr<LogDirectory> directory_ = DiskDirectory(open(temp_.path().c_str(), O_RDONLY | O_DIRECTORY));
};

TEST_F(LogDirectoryTest, AFileIsWholeOrNotThere) {
  EXPECT_EQ(WriteWhole(*directory_, "f", "first"), 0);
  EXPECT_EQ(WriteWhole(*directory_, "f", "second one"), 0);
  const int fd = directory_->Open("f");
  ASSERT_GE(fd, 0);
  EXPECT_EQ(directory_->Size(fd), 10);
  std::string bytes(100, '\0');
  EXPECT_EQ(ReadAll(*directory_, fd, bytes.data(), bytes.size(), 7), 3);
  EXPECT_EQ(bytes.substr(0, 3), "one");
  directory_->Close(fd);
  std::vector<std::string> names;
  EXPECT_EQ(directory_->List(&names), 0);
  EXPECT_THAT(names, testing::UnorderedElementsAre(".", "..", "f"));
  EXPECT_EQ(directory_->Remove("f"), 0);
  EXPECT_EQ(directory_->Open("f"), -ENOENT);
}

TEST_F(LogDirectoryTest, WhatSomebodyRemovedIsNotDurable) {
  const int fd = directory_->Create("f");
  ASSERT_EQ(WriteAll(*directory_, fd, "text"), 0);
  EXPECT_EQ(directory_->Sync(fd), 0);
  std::filesystem::remove_all(temp_.path());
  EXPECT_EQ(directory_->Sync(fd), -ENOENT);
  EXPECT_EQ(directory_->Create("g"), -ENOENT);
  directory_->Close(fd);
}

TEST_F(LogDirectoryTest, WhatIsNotOursAloneIsNotOpened) {
  const int fd = directory_->Create("own");
  ASSERT_GE(fd, 0);
  directory_->Close(fd);
  EXPECT_EQ(directory_->Create("own"), -EEXIST);
  std::filesystem::create_symlink(temp_.File("own"), temp_.File("link"));
  EXPECT_EQ(directory_->Open("link"), -ELOOP);
  ASSERT_EQ(mkfifo(temp_.File("pipe").c_str(), 0600), 0);
  EXPECT_EQ(directory_->Open("pipe"), -EPERM);
  std::filesystem::create_hard_link(temp_.File("own"), temp_.File("other"));
  EXPECT_EQ(directory_->Open("own"), -EPERM);
  std::filesystem::remove(temp_.File("other"));
  ASSERT_EQ(chmod(temp_.File("own").c_str(), 0640), 0);
  EXPECT_EQ(directory_->Open("own"), -EPERM);
}

TEST(LogFileName, IsReadAsItIsWritten) {
  EXPECT_EQ(LogFileName(42, kSegmentSuffix), "000042.seg");
  EXPECT_EQ(LogFileName(4294967295, kCheckpointSuffix), "4294967295.idx");
  EXPECT_EQ(LogFileNumber("000042.seg", kSegmentSuffix), 42u);
  for (const char* other : {"000042.idx", ".seg", "x.seg", "-1.seg", "0.seg", "99999999999.seg", "1 .seg"}) {
    EXPECT_FALSE(LogFileNumber(other, kSegmentSuffix).has_value()) << other;
  }
}

}  // namespace
}  // namespace hydrant
