#include "server/http/allow_list.h"

#include <gtest/gtest.h>

#include <string>

namespace hydrant {
namespace {

TEST(AllowList, HasWhatCanBeSent) {
  for (const char* host :
       {"app", "app.example", "app.example:8000", "my_app", "10.0.0.1:80", "::1", "[::1]", "[::1]:80"}) {
    EXPECT_TRUE(IsAllowableHost(host)) << host;
    EXPECT_TRUE(IsAllowableOrigin(std::string("https://") + host)) << host;
  }
  for (const char* host : {"", ":80", "app:", "app:x", "a:1:2", "[", "]", "[]", "[::1", "[::1]80", "[app]", "*.app",
                           "app/", "http://app", "a b", "\"*\"", "[\"*\"]"}) {
    EXPECT_FALSE(IsAllowableHost(host)) << host;
    EXPECT_FALSE(IsAllowableOrigin(std::string("https://") + host)) << host;
  }
  for (const char* origin :
       {"null", "vscode-webview://0a1b", "chrome-extension://abcdef", "tauri://localhost", "file://"}) {
    EXPECT_TRUE(IsAllowableOrigin(origin)) << origin;
  }
  for (const char* origin :
       {"", "app.example", "http://app.example/", "://app", "1a://app", "http://a/b", "http://u@a"}) {
    EXPECT_FALSE(IsAllowableOrigin(origin)) << origin;
  }
}

}  // namespace
}  // namespace hydrant
