#include "server/sessions/journal/session_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using testing::HasSubstr;

std::string WrongWith(const std::string& path) {
  const auto opened = SessionDirectory::Open(path, /*any_file_system=*/true);
  return opened.ok() ? "" : std::string(opened.status().message());
}

TEST(SessionDirectory, IsItsOwnersAloneAndKeepsItsNames) {
  const TempDir temp;
  const std::string path = temp.File("d");
  SessionName name{};
  DirectoryId id{};
  {
    const auto made = SessionDirectory::Open(path + "/", /*any_file_system=*/true);
    ASSERT_TRUE(made.ok()) << made.status();
    name = (*made)->NameOf("tenant", "id");
    id = (*made)->id();
    EXPECT_NE(name, (*made)->NameOf("tenan", "tid")) << "tenant and id are not one word";
  }
  for (const char* file : {"", "/LOCK", "/FORMAT", "/secret", "/log"}) {
    struct stat status {};
    ASSERT_EQ(stat((path + file).c_str(), &status), 0) << file;
    EXPECT_EQ(status.st_mode & 077, 0u) << file;
  }
  const auto again = SessionDirectory::Open(path, /*any_file_system=*/true);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->NameOf("tenant", "id"), name);
  EXPECT_EQ((*again)->id(), id);
  const TempDir elsewhere;
  EXPECT_NE((*SessionDirectory::Open(elsewhere.File("d"), /*any_file_system=*/true))->NameOf("tenant", "id"), name);
}

TEST(SessionDirectory, WhatNamesDependOnIsWhatWasWritten) {
  const TempDir temp;
  const std::string path = temp.File("d");
  ASSERT_EQ(WrongWith(path), "");
  for (const char* file : {"FORMAT", "secret", "check"}) {
    const std::string name = path + "/" + file;
    std::filesystem::rename(name, temp.File("kept"));
    std::ofstream(name) << [&] {
      std::stringstream text;
      text << std::ifstream(temp.File("kept")).rdbuf();
      std::string bytes = text.str();
      bytes[bytes.size() - 3] = bytes[bytes.size() - 3] == '0' ? '1' : '0';
      return bytes;
    }();
    ASSERT_EQ(chmod(name.c_str(), 0600), 0);
    EXPECT_THAT(WrongWith(path), HasSubstr("as check tells")) << file;
    std::filesystem::remove(name);
    const bool made_anew = file == std::string("check");  // from what is there
    EXPECT_EQ(WrongWith(path).empty(), made_anew) << "no " << file;
    std::filesystem::rename(temp.File("kept"), name);
    EXPECT_EQ(WrongWith(path), "") << file;
  }
}

TEST(SessionDirectory, HasOneProcessAtATime) {
  const TempDir temp;
  auto first = SessionDirectory::Open(temp.File("d"), /*any_file_system=*/true);
  ASSERT_TRUE(first.ok());
  EXPECT_THAT(WrongWith(temp.File("d")), HasSubstr("is in use by process " + std::to_string(getpid()) + " on host "));
  first->reset();
  EXPECT_EQ(WrongWith(temp.File("d")), "");
}

TEST(SessionDirectory, RefusesWhatOthersCouldReadOrReplace) {
  const TempDir temp;
  const std::string path = temp.File("d");
  ASSERT_EQ(WrongWith(path), "");
  ASSERT_EQ(chmod(path.c_str(), 0750), 0);
  EXPECT_THAT(WrongWith(path), HasSubstr("chmod 700"));
  ASSERT_EQ(chmod(path.c_str(), 0700), 0);
  if (geteuid() == 0) {  // nobody else can give a directory away
    ASSERT_EQ(chown(path.c_str(), 1, static_cast<gid_t>(-1)), 0);
    EXPECT_THAT(WrongWith(path), HasSubstr("belongs to user 1, and this process is user 0; name a folder in it"));
    ASSERT_EQ(chown(path.c_str(), 0, static_cast<gid_t>(-1)), 0);
  }
  std::filesystem::create_symlink(path, temp.File("link"));
  EXPECT_THAT(WrongWith(temp.File("link")), HasSubstr("is a link"));
  EXPECT_THAT(WrongWith(temp.Write("file", "")), HasSubstr("not a directory"));
  std::filesystem::create_hard_link(path + "/secret", temp.File("copy"));
  EXPECT_THAT(WrongWith(path), HasSubstr("by this name alone"));
  std::filesystem::remove(temp.File("copy"));
  temp.Write("d/FORMAT", "hydrant-sessions 2.0 abc");
  EXPECT_THAT(WrongWith(path), HasSubstr("this version reads \"hydrant-sessions 1.0\""));
}

TEST(SessionDirectory, WhereNoPromiseHoldsIsRefusedByName) {
  EXPECT_THAT(std::string(WrongFileSystem(0x6969)), testing::HasSubstr("is on NFS"));
  EXPECT_THAT(std::string(WrongFileSystem(0x794c7630)), testing::HasSubstr("mount a volume"));
  for (const int64_t type : {int64_t{0xEF53}, int64_t{0x58465342}, int64_t{0x01021994}})
    EXPECT_EQ(WrongFileSystem(type), "");
}

}  // namespace
}  // namespace hydrant
