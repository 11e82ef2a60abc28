#include "server/tenants/rotating_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class RotatingKeysTest : public testing::Test {
 protected:
  std::string Write(const std::string& text) const {
    const std::string path = dir_.Write("keys", text);
    EXPECT_EQ(chmod(path.c_str(), 0600), 0);
    return path;
  }
  TempDir dir_;
};

TEST_F(RotatingKeysTest, AFileHasOneKeyOrTwo) {
  EXPECT_THAT(*ReadKeyFile(Write("one")), ElementsAre(DigestOfKey("one")));
  EXPECT_THAT(*ReadKeyFile(Write("one\n")), ElementsAre(DigestOfKey("one")));
  EXPECT_THAT(*ReadKeyFile(Write("\r\n old \r\n\nnew\r\n")), ElementsAre(DigestOfKey("old"), DigestOfKey("new")));
}

TEST_F(RotatingKeysTest, AFileThatIsNotSetIsNotLookedAt) {
  EXPECT_TRUE(CheckKeyFiles({"", Write("one"), ""}).ok());
  EXPECT_EQ(CheckKeyFiles({"", Write("secret two")}).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(RotatingKeysTest, EveryMistakeIsRefusedWithItsLineAndWithoutTheKey) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "holds no key"},
      {"\n \n", "holds no key"},
      {"secret\nsecret2\n\nsecret3\n", ":4: there are more than 2 keys"},
      {"secret\nsecret\n", ":2: the key occurs twice"},
      {"secret two", ":1: a key has visible ASCII"},
      {"secret\xc3\xa9", ":1: a key has visible ASCII"},
      {std::string("secret\0x", 8), ":1: a key has visible ASCII"},
      {std::string(1025, 's'), ":1: a key has at most"},
      {std::string(9000, 's'), "is larger than"},
  };
  for (const auto& [text, wrong] : cases) {
    const absl::Status status = ReadKeyFile(Write(text)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(wrong));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
  }
}

TEST_F(RotatingKeysTest, ARotationLetsBothKeysInForAsLongAsItLasts) {
  const auto keys = RotatingKeys::FromFile(Write("old"));
  ASSERT_TRUE(keys.ok());
  const auto reload = [&](const std::string& text) {
    Write(text);
    const auto read = (*keys)->Read();
    if (read.ok()) (*keys)->Put(*read);
    return read.ok();
  };
  EXPECT_TRUE((*keys)->Has("old"));
  EXPECT_FALSE((*keys)->Has("new"));
  EXPECT_TRUE(reload("old\nnew\n"));
  EXPECT_TRUE((*keys)->Has("old"));
  EXPECT_TRUE((*keys)->Has("new"));
  EXPECT_FALSE(reload("a b"));
  EXPECT_TRUE((*keys)->Has("old")) << "a wrong file changes nothing";
  EXPECT_TRUE(reload("new\n"));
  EXPECT_FALSE((*keys)->Has("old"));
  EXPECT_TRUE((*keys)->Has("new"));
}

TEST_F(RotatingKeysTest, WithoutAFileTheKeyStays) {
  const auto keys = RotatingKeys::Of("k");
  keys->Put(*keys->Read());
  EXPECT_TRUE(keys->Has("k"));
  EXPECT_EQ(RotatingKeys::Of("")->size(), 0u);
  EXPECT_FALSE(RotatingKeys::Of("")->Has(""));
}

}  // namespace
}  // namespace hydrant
