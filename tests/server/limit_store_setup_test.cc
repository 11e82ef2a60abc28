#include "server/limit_store_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "server/engine/engine_types.h"

namespace hydrant {
namespace {

using testing::HasSubstr;

TEST(LimitStoreSetup, ThereIsNoneWithoutTheFlag) {
  Metrics metrics({});
  EXPECT_EQ(MakeLimitStore(Config(), metrics), nullptr);
  EXPECT_THAT(metrics.Render(EngineCounters(), {}, false), HasSubstr("\nhydrant_shared_limits_away 0\n"));
}

TEST(LimitStoreSetup, CountsWhatItIsAsked) {
  Metrics metrics({});
  Config config;
  config.shared_limits.emplace().path = "/nonexistent/socket";
  config.shared_limits_fail_open = false;
  const auto store = MakeLimitStore(config, metrics);
  ASSERT_NE(store, nullptr);
  EXPECT_FALSE(store->fails_open());
  EXPECT_EQ(store->Ask({}, nullptr), nullptr);
  const std::string text = metrics.Render(EngineCounters(), {}, false);
  EXPECT_THAT(text, HasSubstr("\nhydrant_shared_limits_asks_total{result=\"away\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nhydrant_shared_limits_away 1\n"));
}

TEST(LimitStoreSetup, ThePasswordIsLookedAtBeforeTheModel) {
  Config config;
  EXPECT_TRUE(CheckStorePassword(config).ok());
  config.shared_limits_password_path = testing::TempDir() + "/limit_store_password";
  std::remove(config.shared_limits_password_path.c_str());  // of a run before
  EXPECT_FALSE(CheckStorePassword(config).ok());
  std::ofstream(config.shared_limits_password_path) << "secret\n";
  ASSERT_EQ(chmod(config.shared_limits_password_path.c_str(), 0600), 0);
  EXPECT_TRUE(CheckStorePassword(config).ok());
}

}  // namespace
}  // namespace hydrant
