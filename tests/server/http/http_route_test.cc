#include "server/http/http_route.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hydrant {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

TEST(MatchPath, ANameIsOnePartOrTheRest) {
  EXPECT_THAT(MatchPath("/v1/a", "/v1/a"), Optional(IsEmpty()));
  EXPECT_THAT(MatchPath("/v1/{id}", "/v1/x%2Fy"), Optional(ElementsAre("x/y")));
  EXPECT_THAT(MatchPath("/v1/{id}/items/{item}", "/v1/x/items/y"), Optional(ElementsAre("x", "y")));
  EXPECT_THAT(MatchPath("/v1/{id...}", "/v1/x/y/"), Optional(ElementsAre("x/y/")));
  EXPECT_THAT(MatchPath("/v1/{id}", "/v1/{id}"), Optional(ElementsAre("{id}")));
  for (const char* other : {"/v1/", "/v1", "/v1//items", "/v1/x", "/v1/x/items/", "/v1/x/items/y", "/v1/x/other", ""}) {
    EXPECT_EQ(MatchPath("/v1/{id}/items", other), std::nullopt) << other;
  }
  EXPECT_EQ(MatchPath("/v1/{id...}", "/v1/"), std::nullopt);
  EXPECT_EQ(MatchPath("/", "/x"), std::nullopt);
}

TEST(PathNames, AreThoseInBraces) {
  EXPECT_THAT(PathNames("/v1/a"), IsEmpty());
  EXPECT_THAT(PathNames("/v1/{id}/items/{item...}"), ElementsAre("id", "item"));
}

std::string Found(const std::string& method, const std::string& path) {
  std::vector<HttpRoute> routes;
  const auto add = [&routes](const char* of, const char* at) {
    HttpRoute& route = routes.emplace_back();
    route.method = of;
    route.path = at;
  };
  add("GET", "/r/{id}");
  add("DELETE", "/r/{id}");
  add("GET", "/r/{id}/items");
  add("POST", "/r/tokens");
  add("PUT", "/{rest...}");
  HttpHead head;
  head.method = method;
  head.path = path;
  const FoundRoute found = FindRoute(routes, head);
  return found.route == nullptr ? found.allow : found.route->path;
}

TEST(FindRoute, ThePathThatSaysMostIsTheOnlyOne) {
  EXPECT_EQ(Found("HEAD", "/r/x"), "/r/{id}");
  EXPECT_EQ(Found("POST", "/r/x"), "GET, HEAD, DELETE");
  EXPECT_EQ(Found("DELETE", "/r/x/items"), "GET, HEAD");
  EXPECT_EQ(Found("POST", "/r/tokens"), "/r/tokens");
  EXPECT_EQ(Found("GET", "/r/tokens"), "POST");
  EXPECT_EQ(Found("PUT", "/r/x/other"), "/{rest...}");
  EXPECT_EQ(Found("GET", "/r/x/other"), "PUT");
  EXPECT_EQ(Found("GET", "/"), "");
}

TEST(DialectOf, IsThatOfTheNearestPathAbove) {
  std::vector<HttpRoute> routes(4);
  routes[0].path = "/";
  routes[1].path = "/v1/messages";
  routes[1].dialect = Dialect::kAnthropic;
  routes[2].path = "/v1/messages/openai/{id}";
  routes[3].path = "/v1/models/{model...}";
  routes[3].dialect = std::nullopt;
  for (const char* path : {"/v1/messages", "/v1/messages/", "/v1/messages/x", "/messages/x", "/v1/v1/messages"}) {
    EXPECT_EQ(DialectOf(routes, path), Dialect::kAnthropic) << path;
  }
  for (const char* path : {"/v1/messages/openai", "/v1/messages/openai/x/y"}) {
    EXPECT_EQ(DialectOf(routes, path, Dialect::kAnthropic), Dialect::kOpenAi) << path;
  }
  for (const char* path : {"", "/", "*", "/v1", "/v1/messagesx", "/v1/models", "/v1/models/x"}) {
    const Dialect of_root = std::string_view(path) == "/" ? Dialect::kOpenAi : Dialect::kAnthropic;
    EXPECT_EQ(DialectOf(routes, path, Dialect::kAnthropic), of_root) << path;
    EXPECT_EQ(DialectOf(routes, path), Dialect::kOpenAi) << path;
  }
}

}  // namespace
}  // namespace hydrant
