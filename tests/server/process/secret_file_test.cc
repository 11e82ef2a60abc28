#include "server/process/secret_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(SecretFile, WhoMayReadItDependsOnWhoseItIs) {
  struct Case {
    mode_t mode;
    bool ours;
    bool right;
  };
  const Case cases[] = {
      {0600, true, true},   {0400, true, true},   {0440, true, false},
      {0640, true, false},  {0660, true, false},  {0604, true, false},
      {0644, true, false},  {0400, false, true},  {0440, false, true} /* a Secret under fsGroup, a credential */,
      {0640, false, true},  {0660, false, false}, {0444, false, false},
      {0644, false, false}, {0441, false, false},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(WrongMode(S_IFREG | c.mode, c.ours).empty(), c.right) << std::oct << c.mode << (c.ours ? " ours" : "");
  }
}

TEST(SecretFile, RootsFileOfAGroupIsReadAndOnesOwnIsNot) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  const TempDir dir;
  const std::string path = dir.Write("keys", "k");
  ASSERT_EQ(chmod(path.c_str(), 0440), 0);
  EXPECT_FALSE(ReadSecretFile(path, 100).ok());
  ASSERT_EQ(chown(path.c_str(), 10001, 10001), 0);
  EXPECT_TRUE(ReadSecretFile(path, 100).ok());
}

TEST(SecretFile, WhatIsTooLargeOrNoFileIsRefusedByName) {
  const TempDir dir;
  const std::string path = dir.Write("keys", "12345");
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(ReadSecretFile(path, 5).value_or(""), "12345");
  const absl::Status large = ReadSecretFile(path, 4).status();
  EXPECT_EQ(large.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(large.message()), StartsWith(path));
  ASSERT_EQ(mkfifo(dir.File("fifo").c_str(), 0600), 0);
  EXPECT_THAT(std::string(ReadSecretFile(dir.File("fifo"), 5).status().message()), HasSubstr("regular"));
  EXPECT_FALSE(ReadSecretFile(dir.File("missing"), 5).ok());
}

// As kubelet writes a Secret: keys -> ..data/keys, ..data -> a directory of the version, replaced by a rename.
TEST(SecretFile, AMountThatIsSwappedIsReadThroughItsNewLink) {
  namespace fs = std::filesystem;
  const TempDir dir;
  for (const char* version : {"1", "2"}) {
    fs::create_directory(dir.File(version));
    const std::string path = dir.Write(std::string(version) + "/keys", std::string("key-") + version);
    ASSERT_EQ(chmod(path.c_str(), 0400), 0);
  }
  fs::create_symlink("1", dir.File("..data"));
  fs::create_symlink("..data/keys", dir.File("keys"));
  EXPECT_EQ(ReadSecretFile(dir.File("keys"), 100).value_or(""), "key-1");
  fs::create_symlink("2", dir.File("..data_tmp"));
  fs::rename(dir.File("..data_tmp"), dir.File("..data"));
  fs::remove_all(dir.File("1"));
  EXPECT_EQ(ReadSecretFile(dir.File("keys"), 100).value_or(""), "key-2");
}

}  // namespace
}  // namespace hydrant
