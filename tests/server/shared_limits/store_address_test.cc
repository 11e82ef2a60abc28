#include "server/shared_limits/store_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace hydrant {
namespace {

using testing::HasSubstr;

TEST(StoreAddress, NamesAHostOrASocket) {
  struct Case {
    const char* url;
    const char* text;
    const char* user;
  };
  const Case cases[] = {{"redis://127.0.0.1", "redis://127.0.0.1:6379/0", ""},
                        {"redis://limits.svc:6380/3", "redis://limits.svc:6380/3", ""},
                        {"redis://limits.svc/", "redis://limits.svc:6379/0", ""},
                        {"redis://[::1]:7000/1", "redis://[::1]:7000/1", ""},
                        {"redis://[::1]", "redis://[::1]:6379/0", ""},
                        {"redis://hydrant@limits/2", "redis://hydrant@limits:6379/2", "hydrant"},
                        {"unix:///run/redis.sock", "unix:///run/redis.sock?db=0", ""},
                        {"unix:///run/redis.sock?db=5", "unix:///run/redis.sock?db=5", ""}};
  for (const Case& each : cases) {
    const auto address = ParseStoreAddress(each.url);
    ASSERT_TRUE(address.ok()) << each.url << ": " << address.status();
    EXPECT_EQ(address->Text(), each.text);
    EXPECT_EQ(address->user, each.user);
  }
}

TEST(StoreAddress, SaysWhatIsWrong) {
  struct Case {
    std::string url;
    const char* why;
  };
  const Case cases[] = {{"", "must be redis://"},
                        {"localhost:6379", "must be redis://"},
                        {"memcached://a", "must be redis://"},
                        {"rediss://a", "TLS"},
                        {"redis://", "must be redis://"},
                        {"redis://:6379", "must be redis://"},
                        {"redis://[::1", "must be redis://"},
                        {"redis://[::1]x", "must be redis://"},
                        {"redis://a:0", "port"},
                        {"redis://a:65536", "port"},
                        {"redis://a:6379x", "port"},
                        {"redis://a:-1", "port"},
                        {"redis://a/x", "database"},
                        {"redis://a/-1", "database"},
                        {"redis://a/99999999999", "database"},
                        {"redis://user:secret@a", "--shared-limits-password-file"},
                        {"redis://:secret@a", "--shared-limits-password-file"},
                        {"redis://a?password=secret", "must be redis://"},
                        {"redis://a/0?password=secret", "must be redis://"},
                        {"redis://a#secret", "must be redis://"},
                        {"redis://user%3Asecret@a", "must be redis://"},
                        {"redis://user@secret@a", "must be redis://"},
                        {"redis://a b", "must be redis://"},
                        {"redis://a\nb", "must be redis://"},
                        {"redis://" + std::string(256, 'a'), "must be redis://"},
                        {"unix://run/redis.sock", "absolute"},
                        {"unix:///run/redis.sock?db=x", "database"},
                        {"unix:///run/redis.sock?password=x", "must be redis://"},
                        {"unix:///" + std::string(108, 'a'), "too long"}};
  for (const Case& each : cases) {
    const auto address = ParseStoreAddress(each.url);
    ASSERT_FALSE(address.ok()) << each.url;
    EXPECT_THAT(std::string(address.status().message()), HasSubstr(each.why)) << each.url;
    EXPECT_THAT(std::string(address.status().message()), testing::Not(HasSubstr("secret")));
  }
}

}  // namespace
}  // namespace hydrant
