#include "server/tenants/authentication.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

class AuthenticationTest : public testing::Test {
 protected:
  static int StatusOf(const Authenticate& authenticate, const std::string& authorization,
                      const char* peer = "1.2.3.4") {
    const ApiResult<Caller> caller = authenticate(authorization.empty() ? nullptr : &authorization, peer);
    return caller.ok() ? 200 : caller.error().status;
  }

  TenantRegistry tenants_{SingleTenant("tenant-key"), {.blocks = 10, .sequences_max = 2, .context = 100, .kv = {}}};
  AuthLimiter limiter_;
  int failures_ = 0;
};

TEST_F(AuthenticationTest, ATenantIsKnownByItsKey) {
  const Authenticate authenticate = TenantAuthentication(tenants_, limiter_, [this] { ++failures_; });
  const std::string key = "Bearer tenant-key";
  const ApiResult<Caller> caller = authenticate(&key, "1.2.3.4");
  ASSERT_TRUE(caller.ok());
  EXPECT_EQ(caller.value()->config.name, "default");
  EXPECT_EQ(StatusOf(authenticate, ""), 401);
  EXPECT_EQ(StatusOf(authenticate, "Bearer tenant-kez"), 401);
  EXPECT_EQ(failures_, 2);
}

TEST_F(AuthenticationTest, WhoFailsOftenIsTold429AndAValidKeyStillEnters) {
  const Authenticate authenticate = TenantAuthentication(tenants_, limiter_, nullptr);
  for (int i = 0; i < AuthLimiter::kFailuresMax; ++i) EXPECT_EQ(StatusOf(authenticate, "Bearer x"), 401);
  const std::string wrong = "Bearer x";
  const ApiResult<Caller> refused = authenticate(&wrong, "1.2.3.4");
  EXPECT_EQ(refused.error().status, 429);
  EXPECT_GE(refused.error().retry_after_s, 1);
  EXPECT_EQ(StatusOf(authenticate, "Bearer tenant-key"), 200);
  EXPECT_EQ(StatusOf(authenticate, "Bearer x", "5.6.7.8"), 401);
  EXPECT_EQ(StatusOf(authenticate, ""), 401) << "no key is no guess";
}

TEST_F(AuthenticationTest, TheOperatorHasAKeyOfItsOwn) {
  const Authenticate authenticate = OperatorAuthentication(RotatingKeys::Of("admin-key"), tenants_, limiter_, nullptr);
  EXPECT_EQ(StatusOf(authenticate, "Bearer admin-key"), 200);
  EXPECT_EQ(StatusOf(authenticate, "Bearer tenant-key"), 403);
  EXPECT_EQ(StatusOf(authenticate, "Bearer other"), 401);
  EXPECT_EQ(StatusOf(authenticate, ""), 401);
}

TEST_F(AuthenticationTest, WithoutAnAdminKeyTheListenersPermissionsDecide) {
  const Authenticate authenticate = OperatorAuthentication(RotatingKeys::Of(""), tenants_, limiter_, nullptr);
  EXPECT_EQ(StatusOf(authenticate, ""), 200);
}

TEST_F(AuthenticationTest, ARotatedOperatorsKeyIsKnownAtOnce) {
  const TempDir dir;
  const std::string path = dir.Write("keys", "old");
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  const auto keys = RotatingKeys::FromFile(path);
  ASSERT_TRUE(keys.ok());
  const Authenticate authenticate = OperatorAuthentication(*keys, tenants_, limiter_, nullptr);
  EXPECT_EQ(StatusOf(authenticate, "Bearer old"), 200);
  dir.Write("keys", "new");
  (*keys)->Put(*(*keys)->Read());
  EXPECT_EQ(StatusOf(authenticate, "Bearer old"), 401);
  EXPECT_EQ(StatusOf(authenticate, "Bearer new"), 200);
}

TEST_F(AuthenticationTest, OnAServerWithoutKeysAWrongAdminKeyIsJustWrong) {
  const TenantRegistry open(SingleTenant(""), {.blocks = 10, .sequences_max = 2, .context = 100, .kv = {}});
  EXPECT_EQ(StatusOf(OperatorAuthentication(RotatingKeys::Of("admin-key"), open, limiter_, nullptr), "Bearer x"), 401);
}

}  // namespace
}  // namespace hydrant
