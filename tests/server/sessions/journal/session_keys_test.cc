#include "server/sessions/journal/session_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/process/sha256.h"
#include "server/sessions/journal/session_directory.h"
#include "server/sessions/journal/session_log.h"
#include "tests/server/sessions/journal/model_disk.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using testing::HasSubstr;

const std::string kOne(64, 'a'), kTwo(64, 'b'), kThree(64, 'c');

std::shared_ptr<const SessionKeys> KeysOf(const std::string& text) {
  const auto keys = SessionKeys::Parse(text, "keys.txt");
  EXPECT_TRUE(keys.ok()) << keys.status();
  return keys.ok() ? *keys : nullptr;
}

TEST(SessionKeys, WhatIsSealedOpensForNobodyElseAndInNoOtherPlace) {
  const auto keys = KeysOf(kOne);
  const std::string message = keys->SealText("record", "session", "beside", "what was said");
  EXPECT_EQ(message.size(), std::string("what was said").size() + SessionKeys::kOverhead);
  EXPECT_EQ(message.find("said"), std::string::npos);
  EXPECT_EQ(keys->OpenText("record", "session", "beside", message), "what was said");
  EXPECT_EQ(KeysOf(kTwo + "\n" + kOne)->OpenText("record", "session", "beside", message), "what was said");
  EXPECT_FALSE(KeysOf(kTwo)->OpenText("record", "session", "beside", message).has_value());
  EXPECT_FALSE(keys->OpenText("kv", "session", "beside", message).has_value());
  EXPECT_FALSE(keys->OpenText("record", "another", "beside", message).has_value());
  EXPECT_FALSE(keys->OpenText("record", "session", "besides", message).has_value());
  for (size_t at = 0; at < message.size(); ++at) {
    std::string hurt = message;
    hurt[at] = static_cast<char>(hurt[at] ^ 4);
    EXPECT_FALSE(keys->OpenText("record", "session", "beside", hurt).has_value()) << at;
    EXPECT_FALSE(keys->OpenText("record", "session", "beside", message.substr(0, at)).has_value()) << at;
  }
}

// No key is used twice: nothing but the key's id is the same in two messages of the same text.
TEST(SessionKeys, NoTwoMessagesAreAlike) {
  const auto keys = KeysOf(kOne);
  std::set<std::string> salts, texts;
  for (int i = 0; i < 1000; ++i) {
    const std::string message = keys->SealText("record", "session", "", "the same");
    salts.insert(message.substr(8, 32));
    texts.insert(message.substr(40));
  }
  EXPECT_EQ(salts.size(), 1000u);
  EXPECT_EQ(texts.size(), 1000u);
}

TEST(SessionKeys, AFileThatHasNoKeysIsRefusedByItsLine) {
  const auto wrong = [](const std::string& text) {
    return std::string(SessionKeys::Parse(text, "keys.txt").status().message());
  };
  EXPECT_EQ(wrong("# the key\n" + kOne + "\r\n\n"), "");
  EXPECT_EQ(wrong("# none\n"), "--session-key-file: keys.txt: there is no key in it");
  EXPECT_THAT(wrong(kOne + "\n" + kOne.substr(1)), HasSubstr("keys.txt: line 2: a key is 64 hexadecimal digits"));
  EXPECT_THAT(wrong(kOne.substr(1) + "g"), HasSubstr("line 1"));
  EXPECT_THAT(wrong(kOne + "\n" + kOne), HasSubstr("line 2: the same key twice"));
  EXPECT_THAT(wrong(kOne + "\n" + kTwo + "\n" + kThree), HasSubstr("line 3: more than two keys"));
  const TempDir temp;
  const std::string path = temp.Write("keys", kOne);
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_THAT(std::string(SessionKeys::Load(path).status().message()), HasSubstr(path)) << "others may read it";
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_TRUE(SessionKeys::Load(path).ok());
}

TEST(SessionKeys, ADirectoryIsOpenedWithItsKeysAlone) {
  const TempDir temp;
  const std::string sealed = temp.File("sealed"), plain = temp.File("plain");
  const auto wrong = [](const std::string& path, const std::string& text) {
    const auto keys = text.empty() ? nullptr : KeysOf(text);
    return std::string(SessionDirectory::Open(path, /*any_file_system=*/true, keys.get()).status().message());
  };
  const std::string one = SessionKeys::NameOf(KeysOf(kOne)->ids().front());
  EXPECT_EQ(wrong(sealed, kOne), "");
  EXPECT_EQ(wrong(sealed, kOne), "");
  EXPECT_THAT(wrong(sealed, ""), HasSubstr("is encrypted with key " + one + ": --session-key-file is needed"));
  EXPECT_THAT(wrong(sealed, kTwo), HasSubstr("with key " + one + ", which is not in --session-key-file"));
  EXPECT_EQ(wrong(sealed, kTwo + "\n" + kOne), "");
  EXPECT_THAT(wrong(sealed, kTwo), HasSubstr("with key " + one)) << "something may still be sealed with it";
  {
    const auto keys = KeysOf(kTwo + "\n" + kOne);
    const auto directory = SessionDirectory::Open(sealed, /*any_file_system=*/true, keys.get());
    ASSERT_TRUE(directory.ok());
    EXPECT_TRUE((*directory)->has_old_keys());
    EXPECT_EQ((*directory)->ForgetOldKeys(), 0);
    EXPECT_FALSE((*directory)->has_old_keys());
  }
  EXPECT_EQ(wrong(sealed, kTwo), "");
  EXPECT_EQ(wrong(plain, ""), "");
  EXPECT_THAT(wrong(plain, kOne), HasSubstr("was begun without --session-key-file"));
  EXPECT_EQ(wrong(plain, ""), "") << "nothing was changed";
  std::string format(20, '\0');
  std::ifstream(sealed + "/FORMAT").read(format.data(), std::ssize(format));
  EXPECT_EQ(format, "hydrant-sessions 2.0") << "a version that knows of no keys leaves it alone";
}

SessionName SealedName(std::string_view tenant, std::string_view id) {
  SessionName name{};
  const Sha256Digest digest = Sha256(std::string(tenant) + "/" + std::string(id));
  std::copy_n(digest.begin(), name.size(), name.begin());
  return name;
}

SessionLogOptions SealedOptions(std::shared_ptr<const SessionKeys> keys, bool reseals = false) {
  SessionLogOptions options;
  options.directory.fill(5);
  options.name_of = SealedName;
  options.segment_bytes = 2000;
  options.keys = std::move(keys);
  options.reseals = reseals;
  return options;
}

LogRecord SealedRecord(const std::string& id, uint64_t turn) {
  LogRecord record;
  record.type = turn == 1 ? RecordType::kReplace : RecordType::kTurn;
  record.name = SealedName("tenant", id);
  record.turn = turn;
  record.turn_before = turn - 1;
  record.wall_s = 100;
  record.facts = {.tenant = "tenant", .id = id};
  record.body = "secret of " + id;
  return record;
}

LogRecord EndOf(const std::string& id) {
  LogRecord record = SealedRecord(id, 2);
  record.type = RecordType::kForget;
  return record;
}

size_t SealedBodies(const SessionLog& log, const std::string& id) {
  const auto past = log.Read(SealedName("tenant", id));
  return past.ok() ? past->bodies.size() : 0;
}

TEST(SealedLog, HasNothingThatWasSaidAndIsReadWithItsKeysAlone) {
  ModelDisk disk;
  {
    const auto log = SessionLog::Open(disk.Mount(), SealedOptions(KeysOf(kOne)));
    ASSERT_TRUE(log.ok());
    for (uint64_t turn = 1; turn <= 12; ++turn) {
      const std::vector<LogRecord> records = {SealedRecord("first", turn), SealedRecord("second", turn)};
      EXPECT_THAT((*log)->Write(records, 0), testing::Each(true));
    }
    (*log)->Checkpoint();
  }
  for (const char* said : {"secret", "first", "second", "of "}) EXPECT_FALSE(disk.Contains(said)) << said;
  const auto log = SessionLog::Open(disk.Mount(), SealedOptions(KeysOf(kOne)));
  EXPECT_EQ(SealedBodies(**log, "first"), 12u);
  EXPECT_EQ((*log)->counts().damaged, 0u);
  for (const auto& keys : {std::shared_ptr<const SessionKeys>(), KeysOf(kTwo)}) {
    const auto other = SessionLog::Open(disk.Mount(), SealedOptions(keys));
    ASSERT_TRUE(other.ok());
    EXPECT_EQ((*other)->counts().sessions, 0);
    EXPECT_GT((*other)->counts().damaged, 0u);
  }
}

// Whoever can write the files but has no key makes no session say anything.
TEST(SealedLog, TakesNoRecordThatIsNotSealed) {
  ModelDisk disk;
  {
    const auto plain = SessionLog::Open(disk.Mount(), SealedOptions(nullptr));
    EXPECT_TRUE((*plain)->Write(std::vector{SealedRecord("first", 1)}, 0).front());
  }
  const auto log = SessionLog::Open(disk.Mount(), SealedOptions(KeysOf(kOne)));
  EXPECT_EQ((*log)->counts().sessions, 0);
}

// Nor does it make one end: such a record is damage, also once segments have been written anew.
TEST(SealedLog, EndsNoSessionForWhoeverHasNoKey) {
  ModelDisk disk;
  {
    const auto log = SessionLog::Open(disk.Mount(), SealedOptions(KeysOf(kOne)));
    const std::vector<LogRecord> records = {SealedRecord("forged", 1), SealedRecord("gone", 1)};
    EXPECT_THAT((*log)->Write(records, 0), testing::Each(true));
  }
  for (const bool has_key : {false, true}) {
    const auto log = SessionLog::Open(disk.Mount(), SealedOptions(has_key ? KeysOf(kOne) : nullptr));
    EXPECT_TRUE((*log)->Write(std::vector{EndOf(has_key ? "gone" : "forged")}, 0).front());
  }
  for (int starts = 0; starts < 2; ++starts) {
    std::erase_if(disk.names, [](const auto& file) { return file.first.ends_with(kCheckpointSuffix); });
    const auto log = SessionLog::Open(disk.Mount(), SealedOptions(KeysOf(kTwo + "\n" + kOne), /*reseals=*/true));
    EXPECT_EQ(SealedBodies(**log, "forged"), 1u) << starts;
    EXPECT_EQ((*log)->counts().sessions, 1) << starts;
    EXPECT_EQ((*log)->counts().damaged, starts == 0 ? 1u : 0u);
    for (int i = 0; i < 100 && (*log)->Clean(200); ++i) {
    }
  }
}

// Bit by bit everything is sealed with the new key, and then the old one is not needed.
TEST(SealedLog, IsSealedAnewWithTheNewKey) {
  ModelDisk disk;
  const std::string old_id(reinterpret_cast<const char*>(KeysOf(kOne)->ids().front().data()), 8);
  {
    const auto log = SessionLog::Open(disk.Mount(), SealedOptions(KeysOf(kOne)));
    for (uint64_t turn = 1; turn <= 20; ++turn) {
      EXPECT_TRUE((*log)->Write(std::vector{SealedRecord(turn % 2 == 0 ? "a" : "b", (turn + 1) / 2)}, 0).front());
    }
    (*log)->Checkpoint();
  }
  ASSERT_TRUE(disk.Contains(old_id));
  {
    const auto log = SessionLog::Open(disk.Mount(), SealedOptions(KeysOf(kTwo + "\n" + kOne), /*reseals=*/true));
    EXPECT_FALSE((*log)->IsResealed());
    EXPECT_TRUE((*log)->Write(std::vector{SealedRecord("a", 11)}, 0).front()) << "meanwhile it goes on";
    for (int i = 0; i < 100 && (*log)->Clean(200); ++i) {
    }
    EXPECT_TRUE((*log)->IsResealed());
    EXPECT_EQ(SealedBodies(**log, "a"), 11u);
  }
  EXPECT_FALSE(disk.Contains(old_id));
  const auto log = SessionLog::Open(disk.Mount(), SealedOptions(KeysOf(kTwo)));
  EXPECT_EQ(SealedBodies(**log, "a"), 11u);
  EXPECT_EQ(SealedBodies(**log, "b"), 10u);
  EXPECT_TRUE((*log)->IsResealed());
}

// Eight sessions in one segment, which the checkpoint knows of.
void WriteEight(ModelDisk& disk) {
  const auto log = SessionLog::Open(disk.Mount(), SealedOptions(KeysOf(kOne)));
  for (const char id : std::string("abcdefgh")) {
    EXPECT_TRUE((*log)->Write(std::vector{SealedRecord(std::string(1, id), 1)}, 0).front());
  }
  (*log)->Checkpoint();
}

// One record that cannot be read keeps no other session from being sealed anew; and as long as there is its session, the old key is
// not called useless: the next start may read it.
TEST(SealedLog, AnUnreadableSessionKeepsTheOldKeyAndNoOtherSession) {
  ModelDisk disk;
  WriteEight(disk);
  EXPECT_TRUE((*SessionLog::Open(disk.Mount(), SealedOptions(KeysOf(kOne))))->Write(std::vector{EndOf("h")}, 0)[0]);
  std::string& bytes = disk.names.at("000001.seg")->bytes;
  char& hurt = bytes.at(kSegmentHeaderBytes + kRecordHeaderBytes + SessionKeys::kOverhead);  // in the text of "a"
  hurt = static_cast<char>(hurt ^ 1);
  {
    const auto log = SessionLog::Open(disk.Mount(), SealedOptions(KeysOf(kTwo + "\n" + kOne), /*reseals=*/true));
    for (int i = 0; i < 100; ++i) (*log)->Clean(200);
    EXPECT_FALSE((*log)->IsResealed());
    EXPECT_TRUE((*log)->Write(std::vector{EndOf("a")}, 0).front());
    EXPECT_TRUE((*log)->IsResealed());
  }
  EXPECT_TRUE(disk.names.contains("000001.seg")) << "with the record of \"h\", whose end was sealed anew";
  std::erase_if(disk.names, [](const auto& file) { return file.first.ends_with(kCheckpointSuffix); });
  for (const std::string& keys : {kTwo + "\n" + kOne, kTwo}) {
    const auto log = SessionLog::Open(disk.Mount(), SealedOptions(KeysOf(keys)));
    for (const char id : std::string("bcdefg")) EXPECT_EQ(SealedBodies(**log, std::string(1, id)), 1u) << id;
    EXPECT_EQ((*log)->counts().sessions, 6);
  }
}

// Whichever call on the disk fails meanwhile: once the old key is called useless, all is read without it.
TEST(SealedLog, CallsTheOldKeyUselessOnlyWhereItIsWhicheverCallFails) {
  for (int64_t k = 0, calls = 1; k < calls; ++k) {
    ModelDisk disk;
    WriteEight(disk);
    bool resealed = false;
    {
      const auto log = SessionLog::Open(disk.Mount(), SealedOptions(KeysOf(kTwo + "\n" + kOne), /*reseals=*/true));
      ASSERT_TRUE(log.ok());
      const int64_t first = disk.calls;
      disk.fail_at = first + k;
      for (int i = 0; i < 100 && !resealed; ++i) {
        (*log)->Clean(200);
        resealed = (*log)->IsResealed();
      }
      calls = disk.calls - first;
    }
    disk.fail_at = -1;
    const auto log = SessionLog::Open(disk.Mount(), SealedOptions(KeysOf(resealed ? kTwo : kTwo + "\n" + kOne)));
    for (const char id : std::string("abcdefgh")) EXPECT_EQ(SealedBodies(**log, std::string(1, id)), 1u) << id << k;
  }
}

}  // namespace
}  // namespace hydrant
