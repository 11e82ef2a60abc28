#include "server/live_view/ui_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/server/test_server.h"

namespace hydrant {
namespace {

using testing::HasSubstr;
using testing::Not;
using Response = RawClient::Response;

std::string PathOf(const UiAsset& asset) { return asset.path.empty() ? "/ui" : "/ui/" + std::string(asset.path); }

TEST(Ui, EveryAssetIsServedUnderTheStrictPolicyAndKept) {
  TestServer server;
  for (const UiAsset& asset : UiAssets()) {
    const Response response = server.Ask(Get(PathOf(asset)));
    EXPECT_EQ(response.status, 200) << asset.path;
    EXPECT_EQ(response.body, asset.content);
    EXPECT_EQ(response.Field("content-type"), asset.content_type);
    EXPECT_EQ(response.Field("content-security-policy"), kUiSecurityPolicy);
    EXPECT_EQ(response.Field("x-content-type-options"), "nosniff");
    EXPECT_EQ(response.Field("referrer-policy"), "no-referrer");
    const std::string etag = response.Field("etag");
    const Response again = server.Ask(Get(PathOf(asset), "If-None-Match: " + etag + "\r\n"));
    EXPECT_EQ(again.status, 304);
    EXPECT_EQ(again.body, "");
    EXPECT_EQ(again.Field("content-length"), "");
    EXPECT_EQ(again.Field("etag"), etag);
    EXPECT_EQ(server.Ask(Get(PathOf(asset), "If-None-Match: \"another\"\r\n")).status, 200);
  }
}

// What a policy would forbid is not there to begin with.
TEST(Ui, NothingIsInlineAndNothingComesFromElsewhere) {
  for (const UiAsset& asset : UiAssets()) {
    const std::string content(asset.content);
    EXPECT_FALSE(content.empty()) << asset.path;
    EXPECT_THAT(content, Not(HasSubstr("style=\""))) << asset.path;
    EXPECT_THAT(content, Not(HasSubstr("innerHTML"))) << asset.path;
    EXPECT_THAT(content, Not(HasSubstr("https:"))) << asset.path;
    if (asset.content_type.starts_with("text/html")) {
      EXPECT_THAT(content, Not(HasSubstr("<script>")));
      EXPECT_THAT(content, Not(HasSubstr(" onclick")));
    }
  }
}

// Every file that the page or a script names is there.
TEST(Ui, TheAssetsFindEachOther) {
  std::set<std::string> paths;
  std::string all;
  for (const UiAsset& asset : UiAssets()) {
    paths.insert(PathOf(asset));
    all += asset.content;
  }
  size_t found = 0;
  for (const char* quote : {"\"/ui/", "\"./"}) {
    for (size_t at = all.find(quote); at != std::string::npos; at = all.find(quote, at + 1)) {
      const size_t begin = at + std::string(quote).size();
      EXPECT_EQ(paths.count("/ui/" + all.substr(begin, all.find('"', begin) - begin)), 1u) << all.substr(at, 40);
      ++found;
    }
  }
  EXPECT_GE(found, 8u);
}

TEST(Ui, CanBeSwitchedOff) {
  TestServerOptions options;
  options.http.ui = false;
  TestServer server(std::move(options));
  EXPECT_EQ(server.Ask(Get("/ui")).status, 404);
  EXPECT_EQ(server.Ask(Get("/")).status, 404);
  EXPECT_EQ(server.Ask(Get("/health")).status, 200);
}

TEST(Ui, TheRootLeadsToIt) {
  TestServerOptions options;
  options.tenants = SingleTenant("secret");
  TestServer server(std::move(options));
  const Response root = server.Ask(Get("/"));
  EXPECT_EQ(root.status, 302);
  EXPECT_EQ(root.Field("location"), "/ui");
  EXPECT_EQ(root.body, "");
  EXPECT_EQ(server.Ask(Get("/ui/")).Field("location"), "/ui");
  EXPECT_EQ(server.Ask(Get("/ui/no_such_file")).status, 404);
}

TEST(Ui, NeedsNoKeyAndGivesNoData) {
  TestServerOptions options;
  options.tenants = SingleTenant("secret");
  TestServer server(std::move(options));
  EXPECT_EQ(server.Ask(Get("/ui")).status, 200);
  EXPECT_EQ(server.Ask(Get("/v1/models")).status, 401);
  EXPECT_EQ(server.Ask(Get("/v1/sessions/s/kv")).status, 401);
}

}  // namespace
}  // namespace hydrant
