// What the tools do to the directory of a server that is stopped.
#include "server/sessions/tools/directory_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/process/exit_codes.h"
#include "server/sessions/journal/byte_codec.h"
#include "server/sessions/journal/crc32c.h"
#include "server/sessions/transfer/session_file.h"
#include "tests/server/sessions/tools/sessions_on_disk.h"

namespace hydrant {
namespace {

using testing::HasSubstr;
using testing::Not;

class DirectoryPlaceTools : public DirectoryTools {};

TEST_F(DirectoryPlaceTools, ADirectoryThatAServerUsesIsLeftAlone) {
  disk_.Open();
  for (const char* word : {"list", "verify"}) {
    const ToolRun run = Run(word);
    EXPECT_EQ(run.exit_code, kExitConfig);
    EXPECT_THAT(run.error, HasSubstr("is in use by process " + std::to_string(getpid()) + " on host "));
  }
}

TEST_F(DirectoryPlaceTools, AMistypedDirectoryIsNotMade) {
  const ToolRun run = On(temp_.File("none"), "list", {});
  EXPECT_EQ(run.exit_code, kExitConfig);
  EXPECT_THAT(run.error, HasSubstr("is no directory of sessions"));
  EXPECT_FALSE(std::filesystem::exists(temp_.File("none")));
}

TEST_F(DirectoryPlaceTools, EveryPolicyHasItsNameButALaterVersions) {
  constexpr auto kLast = static_cast<uint8_t>(kKvPresetLast);
  disk_.Open();
  disk_.Add("acme", "known", {"Hi."}, kLast);
  disk_.Add("acme", "later", {"Hi."}, kLast + 1);
  disk_.Stop();
  const std::string list = Run("list").out;
  const auto line = [&](const std::string& id) {
    const size_t at = list.find(id);
    return list.substr(at, list.find('\n', at) - at);
  };
  EXPECT_THAT(line("known"), HasSubstr(std::string(KvPresetName(kKvPresetLast))));
  EXPECT_THAT(line("later"), HasSubstr("?"));
}

TEST_F(DirectoryPlaceTools, WhatIsForgottenIsInNoFile) {
  ASSERT_THAT(BytesBelow(disk_.path()), HasSubstr(kCanary));
  // KV that a process had begun to write, or to be sent.
  const std::string kv = disk_.path() + "/kv/" + KvFileName(disk_.NameOf("acme", "a"), 1);
  for (const char* end : {"", ".tmp", ".0123.1.kv.tmp"}) std::ofstream(kv + end) << kCanary;
  const ToolRun run = Run("forget", {"a", "--tenant", "acme"});
  EXPECT_EQ(run.exit_code, kExitOk) << run.error;
  EXPECT_THAT(BytesBelow(disk_.path()), Not(HasSubstr(kCanary)));
  EXPECT_THAT(Run("list").out, Not(HasSubstr("acme    a ")));
  EXPECT_THAT(Run("verify").out, HasSubstr("2 sessions"));
  EXPECT_THAT(Run("forget", {"b", "b"}).error, HasSubstr("forgot 1 of 1 sessions; no file has the text of 1"));
  EXPECT_THAT(BytesBelow(disk_.path()), Not(HasSubstr("Good day.")));
  disk_.Open();
  disk_.Add("acme", "b", {"Good day."});
  disk_.Stop();
  EXPECT_EQ(Run("forget", {"b", "nobody"}).exit_code, kExitIncomplete) << "all of them or none";
  EXPECT_THAT(Run("list").out, HasSubstr("acme    b "));
}

// A conversation before its first response.
TEST_F(DirectoryPlaceTools, ASessionOfNotesAloneIsTaken) {
  SessionPast past;
  past.notes.push_back(std::make_shared<const TurnNote>(
      TurnNote{.turn = 1, .tokens = 0, .text = "an item", .head = std::make_shared<const std::string>()}));
  SessionFile file;
  file.facts = {"acme", "conv", 1'699'999'000, 0, 0, 0};
  file.model = kDiskModel;
  file.turn = 1;
  file.past = EncodePast(past, nullptr, kDiskModel);
  const std::string path = temp_.Write("conv.session", WriteSessionFile(file));
  const ToolRun run = Run("import", {path});
  EXPECT_EQ(run.exit_code, kExitOk) << run.error;
  EXPECT_THAT(Run("list").out, HasSubstr("acme    conv"));
  EXPECT_EQ(Run("verify").exit_code, kExitOk);
  past.notes.clear();
  file.facts.id = "nothing";
  file.past = EncodePast(past, nullptr, kDiskModel);
  EXPECT_EQ(Run("import", {temp_.Write("nothing.session", WriteSessionFile(file))}).exit_code, kExitIncomplete);
}

// A key file as a server takes one; the golden directory that is sealed has this key, too.
std::string KeyFile(const TempDir& temp) {
  const std::string path = temp.Write("key", std::string(64, 'a'));
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  return path;
}

TEST_F(DirectoryPlaceTools, AnEncryptedDirectoryIsOpenedWithItsKey) {
  const std::string key = KeyFile(temp_), path = temp_.File("sealed");
  {
    SessionsOnDisk sealed(path, key);
    sealed.Add("acme", "a", {kCanary});
  }
  EXPECT_THAT(BytesBelow(path), Not(HasSubstr(kCanary)));
  const ToolRun without = On(path, "list", {});
  EXPECT_EQ(without.exit_code, kExitConfig);
  EXPECT_THAT(without.error, HasSubstr("--session-key-file is needed"));
  EXPECT_THAT(On(path, "list", {"--session-key-file", key}).out, HasSubstr("acme    a "));
  const ToolRun verified = On(path, "verify", {"--session-key-file", key});
  EXPECT_EQ(verified.exit_code, kExitOk) << verified.out << verified.error;
  EXPECT_THAT(verified.out, HasSubstr("1 session"));
}

// Directories that versions have left: tests/golden/sessions/MAJOR.MINOR, each with what `list --json` says of it.
std::string GoldenDirectories() { return std::string(HYDRANT_SOURCE_DIR) + "/tests/golden/sessions"; }

// Git keeps no mode, and a test is not to write to the sources.
std::string CopyOf(const std::filesystem::path& directory, const TempDir& temp) {
  const std::filesystem::path copy = temp.File("golden");
  std::filesystem::copy(directory, copy, std::filesystem::copy_options::recursive);
  using std::filesystem::perms;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(copy)) {
    std::filesystem::permissions(entry.path(),
                                 entry.is_directory() ? perms::owner_all : perms::owner_read | perms::owner_write);
  }
  std::filesystem::permissions(copy, perms::owner_all);
  return copy.string();
}

std::string TextOfFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(GoldenSessions, WhatEveryVersionHasWrittenIsRead) {
  std::set<std::string> versions;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenDirectories())) {
    if (!entry.is_directory()) continue;
    versions.insert(entry.path().filename());
    const TempDir temp;
    const std::string directory = CopyOf(entry.path() / "directory", temp);
    std::vector<std::string> key;
    if (std::filesystem::exists(directory + "/keys")) key = {"--session-key-file", KeyFile(temp)};
    const auto run = [&](const std::string& word, std::vector<std::string> more) {
      more.insert(more.end(), key.begin(), key.end());
      return On(directory, word, more);
    };
    const ToolRun list = run("list", {"--json"});
    EXPECT_EQ(list.out, TextOfFile(entry.path() / "list.json")) << entry.path() << list.error;
    const ToolRun verify = run("verify", {});
    EXPECT_EQ(verify.exit_code, kExitOk) << entry.path() << verify.out;
    const ToolRun file = run("export", {"--tenant", "acme", "a", "--output", "-"});
    EXPECT_EQ(file.out, TextOfFile(entry.path() / "acme.a.session")) << entry.path() << file.error;
  }
  EXPECT_EQ(versions, (std::set<std::string>{"1.0", "2.0"})) << "plain, and sealed";
}

TEST(GoldenSessions, AHigherMajorIsRefusedAndUntouched) {
  const std::filesystem::path golden = GoldenDirectories() + "/1.0/directory";
  const auto refused = [](const std::string& directory, const char* says) {
    const std::string before = BytesBelow(directory + "/log");
    const ToolRun run = RunTool({"list", "--session-dir", directory});
    EXPECT_EQ(run.exit_code, kExitConfig);
    EXPECT_THAT(run.error, HasSubstr(says));
    EXPECT_EQ(BytesBelow(directory + "/log"), before);
  };
  const TempDir one, other;
  const std::string format = CopyOf(golden, one);
  std::fstream(format + "/FORMAT", std::ios::in | std::ios::out) << "hydrant-sessions 2.0 ";
  refused(format, "FORMAT is \"hydrant-sessions 2.0 ");
  EXPECT_THAT(TextOfFile(format + "/FORMAT"), HasSubstr("hydrant-sessions 2.0 "));
  const std::string log = CopyOf(golden, other);
  std::string segment;
  AppendSegmentHeader(9, {}, &segment);
  segment[8] = 2;  // the major version
  segment.resize(segment.size() - 4);
  PutFixed(Crc32c(segment), &segment);
  std::ofstream(log + "/log/000009.seg", std::ios::binary) << segment;
  std::filesystem::permissions(log + "/log/000009.seg", std::filesystem::perms(0600));
  refused(log, "000009.seg: written by a later version (format 2); this one reads format 1");
}

// Writes the directory of the version that this is: --gtest_also_run_disabled_tests --gtest_filter='*WriteGolden', with
// HYDRANT_GOLDEN_OUT=tests/golden/sessions/MAJOR.MINOR, and with HYDRANT_GOLDEN_SEALED=1 for one that is sealed. Once, when the
// format changes.
TEST(GoldenSessions, DISABLED_WriteGolden) {
  const char* out = std::getenv("HYDRANT_GOLDEN_OUT");
  ASSERT_NE(out, nullptr);
  const TempDir temp;
  const std::string directory = std::string(out) + "/directory";
  const std::string key = std::getenv("HYDRANT_GOLDEN_SEALED") != nullptr ? KeyFile(temp) : "";
  std::filesystem::create_directories(out);
  SessionsOnDisk disk(directory, key);
  disk.Add("acme", "a", {"Hello.", " Who is it?", " It is me."});
  disk.Add("acme", "b", {"Good day."});
  disk.Add("other", "a", {"Bye."});
  disk.Stop();
  disk.Open();  // a second segment, behind a checkpoint
  disk.Add("other", "c", {"And", " so", " on."});
  disk.Stop();
  std::vector<std::string> list = {"--json"};
  std::vector<std::string> exports = {"--tenant", "acme", "a", "--output", std::string(out) + "/acme.a.session"};
  for (std::vector<std::string>* more : {&list, &exports}) {
    if (!key.empty()) more->insert(more->end(), {"--session-key-file", key});
  }
  std::ofstream(std::string(out) + "/list.json") << On(directory, "list", list).out;
  const ToolRun file = On(directory, "export", exports);
  EXPECT_EQ(file.exit_code, kExitOk) << file.error;
  std::filesystem::remove(directory + "/LOCK");
}

}  // namespace
}  // namespace hydrant
