#include "model/files/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

TEST(MappedFile, ShowsAFilesBytes) {
  const TempDir dir;
  const auto file = MappedFile::Open(dir.Write("a.bin", "hello"));
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ((*file)->bytes(), "hello");
  EXPECT_EQ((*file)->name(), "a.bin");
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  const TempDir dir;
  const auto file = MappedFile::Open(dir.Write("empty", ""));
  ASSERT_THAT(file, IsOk());
  EXPECT_TRUE((*file)->bytes().empty());
}

TEST(MappedFile, TheOperatorsOwnPathMayBeALink) {
  const TempDir dir;
  dir.Write("real", "x");
  std::filesystem::create_symlink("real", dir.File("link"));
  EXPECT_THAT(MappedFile::Open(dir.File("link")), IsOk());
}

TEST(MappedFile, RefusesWhatIsNoRegularFile) {
  const TempDir dir;
  EXPECT_THAT(MappedFile::Open(dir.File("absent")), RefusedWith("absent: no such file"));
  EXPECT_THAT(MappedFile::Open(dir.path()), RefusedWith("is not a regular file"));
  EXPECT_THAT(MappedFile::Open("/dev/zero"), RefusedWith("zero: is not a regular file"));
}

class WeightDirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = WeightDirectory::Open(dir_.path());
    ASSERT_THAT(opened, IsOk());
    directory_ = std::make_unique<WeightDirectory>(*std::move(opened));
  }
  TempDir dir_;
  std::unique_ptr<WeightDirectory> directory_;
};

TEST_F(WeightDirectoryTest, MapsAndReadsItsFiles) {
  dir_.Write("a.json", "{}");
  EXPECT_TRUE(directory_->Contains("a.json"));
  EXPECT_FALSE(directory_->Contains("b.json"));
  EXPECT_EQ(*directory_->Read("a.json", 2), "{}");
  EXPECT_EQ((*directory_->Map("a.json"))->bytes(), "{}");
  EXPECT_THAT(directory_->Read("a.json", 1), RefusedWith("a.json: has 2 bytes; at most 1"));
  EXPECT_TRUE(absl::IsNotFound(directory_->Read("b.json", 1).status()));
}

// Row E12: nothing leads out of the directory or blocks.
TEST_F(WeightDirectoryTest, RefusesNamesThatLeadElsewhere) {
  for (const char* name : {"../../etc/passwd", "/etc/passwd", "a/b", "..", ".", ""}) {
    EXPECT_THAT(directory_->Map(name), RefusedWith("is not a plain file name")) << name;
    EXPECT_FALSE(directory_->Contains(name)) << name;
  }
}

TEST_F(WeightDirectoryTest, RefusesALinkEvenToAFileBesideIt) {
  dir_.Write("real", "x");
  std::filesystem::create_symlink("real", dir_.File("link"));
  EXPECT_THAT(directory_->Map("link"), RefusedWith("link: is a symbolic link"));
  EXPECT_THAT(directory_->Read("link", 10), RefusedWith("link: is a symbolic link"));
}

// models--org--name/blobs/<hash> and snapshots/<commit>/config.json -> ../../blobs/<hash>.
TEST(WeightDirectoryOfAHubsCache, FollowsLinksToBlobsAndNoOthers) {
  const TempDir cache;
  std::filesystem::create_directories(cache.File("blobs/folder"));
  std::filesystem::create_directories(cache.File("snapshots/abc"));
  cache.Write("blobs/1f2e", "{}");
  cache.Write("secret", "x");
  std::filesystem::create_symlink("../secret", cache.File("blobs/link"));
  const auto link = [&cache](const char* name, const char* target) {
    std::filesystem::create_symlink(target, cache.File(std::string("snapshots/abc/") + name));
  };
  link("config.json", "../../blobs/1f2e");
  link("gone", "../../blobs/0000");
  link("folder", "../../blobs/folder");
  link("twice", "../../blobs/link");
  link("outside", "../../secret");
  link("around", "../../blobs/../secret");
  link("up", "../../blobs/..");
  link("nothing", "../../blobs/");
  link("far", ("../../blobs/" + std::string(300, 'a')).c_str());
  const auto directory = WeightDirectory::Open(cache.File("snapshots/abc"));
  ASSERT_THAT(directory, IsOk());
  EXPECT_EQ(*directory->Read("config.json", 2), "{}");
  EXPECT_EQ((*directory->Map("config.json"))->bytes(), "{}");
  EXPECT_TRUE(absl::IsNotFound(directory->Read("gone", 10).status()));
  EXPECT_THAT(directory->Map("folder"), RefusedWith("folder: is not a regular file"));
  for (const char* name : {"twice", "outside", "around", "up", "nothing", "far"}) {
    EXPECT_THAT(directory->Read(name, 10), RefusedWith("is a symbolic link")) << name;
  }
}

TEST_F(WeightDirectoryTest, RefusesAPipeWithoutWaitingForItsWriter) {
  ASSERT_EQ(mkfifo(dir_.File("pipe").c_str(), 0600), 0);
  EXPECT_THAT(directory_->Map("pipe"), RefusedWith("pipe: is not a regular file"));
}

TEST_F(WeightDirectoryTest, RefusesADirectory) {
  std::filesystem::create_directory(dir_.File("sub"));
  EXPECT_THAT(directory_->Map("sub"), RefusedWith("sub: is not a regular file"));
}

TEST_F(WeightDirectoryTest, OpensADirectoryInIt) {
  std::filesystem::create_directory(dir_.File("sub"));
  dir_.Write("sub/a", "x");
  const auto inner = directory_->Inner("sub");
  ASSERT_THAT(inner, IsOk());
  EXPECT_EQ(*inner->Read("a", 1), "x");
  std::filesystem::create_symlink("sub", dir_.File("link"));
  EXPECT_FALSE(directory_->Inner("link").ok());
  EXPECT_THAT(directory_->Inner("sub/.."), RefusedWith("is not a plain file name"));
  dir_.Write("file", "x");
  EXPECT_FALSE(directory_->Inner("file").ok());
  EXPECT_TRUE(absl::IsNotFound(directory_->Inner("none").status()));
}

TEST(ReturnMemory, WhatWasReturnedIsReadAgain) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 40'000; ++i) text += static_cast<char>('a' + i % 23);
  const auto file = MappedFile::Open(dir.Write("file", text));
  ASSERT_THAT(file, IsOk());
  const std::string_view bytes = (*file)->bytes();
  EXPECT_EQ(bytes, text);
  ReadAhead(bytes.substr(7'000));
  ReturnMemory(bytes.substr(1));
  ReturnMemory(bytes.substr(5'000, 100));  // less than the system takes
  EXPECT_EQ(bytes, text);
}

TEST(ReturnMemory, LeavesOtherMemoryAlone) {
  std::string text(100'000, 'x');
  ReadAhead(text);
  ReturnMemory(text);
  EXPECT_EQ(text, std::string(100'000, 'x'));
}

// Row E11.
TEST(MappedFileDeathTest, AFileCutShortWhileReadEndsTheProcessWithItsName) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TempDir dir;
  const std::string path = dir.Write("weights.gguf", std::string(1 << 20, 'w'));
  EXPECT_EXIT(
      {
        const auto file = MappedFile::Open(path);
        if (!file.ok() || truncate(path.c_str(), 10) != 0) _exit(1);
        const volatile char last = (*file)->bytes()[(1 << 20) - 1];
        _exit(last == 'w' ? 2 : 3);
      },
      testing::ExitedWithCode(kExitBadModelFile), "weights.gguf: the file was cut short");
}

TEST(MappedFile, LeavesSigbusAsItWasOnceTheLastFileIsClosed) {
  const TempDir dir;
  struct sigaction before, during, after;
  sigaction(SIGBUS, nullptr, &before);
  {
    const auto one = MappedFile::Open(dir.Write("one", "1"));
    auto two = MappedFile::Open(dir.Write("two", "2"));
    two->reset();
    sigaction(SIGBUS, nullptr, &during);
    EXPECT_NE(during.sa_sigaction, before.sa_sigaction);
  }
  sigaction(SIGBUS, nullptr, &after);
  EXPECT_EQ(after.sa_sigaction, before.sa_sigaction);
}

}  // namespace
}  // namespace hydrant
