#include "scheduler/tenant.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/scheduler/driver.h"

namespace hydrant {
namespace {

TEST(Tenants, TheLeastServedOfThoseWhoWaitIsChosen) {
  std::vector<Tenant> tenants(4);
  EXPECT_EQ(ChooseTenant(tenants), nullptr);
  tenants[0].service = 1;  // nobody waits
  tenants[1].service = 5;
  tenants[2].service = 3;
  tenants[3].service = 3;
  for (size_t i : {1u, 2u, 3u}) tenants[i].queue.push_back(0);
  EXPECT_EQ(ChooseTenant(tenants), &tenants[2]) << "the first of equals";
  tenants[2].ChargeOutput();
  EXPECT_EQ(ChooseTenant(tenants), &tenants[3]);
}

TEST(Tenants, ChargesAreDividedByTheWeight) {
  Tenant tenant;
  tenant.options.weight = 4;
  tenant.ChargePrompt(8);
  tenant.ChargeOutput();
  EXPECT_DOUBLE_EQ(tenant.service, 8.0 / 4 + 2.0 / 4);
}

TEST(Tenants, LiftingNeverTakesServiceAway) {
  std::vector<Tenant> tenants(3);
  tenants[1].service = 10;
  tenants[1].running = 1;
  tenants[2].service = 3;  // idle: does not count
  LiftFromIdle(tenants[0], tenants);
  EXPECT_DOUBLE_EQ(tenants[0].service, 10);
  tenants[0].service = 12;
  LiftFromIdle(tenants[0], tenants);
  EXPECT_DOUBLE_EQ(tenants[0].service, 12);
  tenants[1].running = 0;
  LiftFromIdle(tenants[2], tenants);
  EXPECT_DOUBLE_EQ(tenants[2].service, 3) << "alone, nothing to catch up with";
}

SchedulerOptions TwoTenants() {
  SchedulerOptions options = SmallOptions(64, 1);
  options.waiting_max = 64;
  options.tenants = {{"a", 1.0}, {"b", 2.0}};
  return options;
}

Request Of(int32_t tenant, uint64_t id) {
  Request request = MakeRequest(id, 10, 10);
  request.tenant = tenant;
  return request;
}

TEST(Tenants, ServiceFollowsTheWeights) {
  Driver driver(TwoTenants());
  for (uint64_t i = 0; i < 24; ++i) {
    ASSERT_TRUE(driver.scheduler.Add(Of(0, 100 + i)).ok());
    ASSERT_TRUE(driver.scheduler.Add(Of(1, 200 + i)).ok());
  }
  while (driver.finished.size() < 24) driver.Step();
  int32_t of_b = 0;
  for (const auto& [id, event] : driver.finished) of_b += id >= 200 ? 1 : 0;
  EXPECT_EQ(of_b, 16) << "twice the weight, twice the requests";
}

TEST(Tenants, ReturningFromIdleBringsNoSavings) {
  Driver driver(TwoTenants());
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(driver.scheduler.Add(Of(0, 100 + i)).ok());
  while (driver.finished.size() < 10) driver.Step();
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(driver.scheduler.Add(Of(1, 200 + i)).ok());
  EXPECT_DOUBLE_EQ(driver.scheduler.tenant(1).service, driver.scheduler.tenant(0).service);
  while (driver.finished.size() < 10 + 12) driver.Step();
  int32_t of_b = 0;
  for (const auto& [id, event] : driver.finished) of_b += id >= 200 ? 1 : 0;
  EXPECT_GE(of_b, 7);
  EXPECT_LE(of_b, 9);
}

}  // namespace
}  // namespace hydrant
