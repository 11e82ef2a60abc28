#include "scheduler/tenant_list.h"

#include <gtest/gtest.h>

#include <vector>

namespace hydrant {
namespace {

TEST(TenantList, OptionsAreReplacedAndCountersStay) {
  TenantList table(SchedulingPolicy::kFair, /*blocks=*/100, /*rows=*/10);
  table.Set(std::vector<TenantOptions>{{.name = "a", .weight = 1.0}, {.name = "b", .weight = 3.0, .floor_blocks = 20}});
  EXPECT_EQ(table.size(), 2);
  EXPECT_EQ(table.at(1).floor_rows, 2) << "a fifth of the rows";
  EXPECT_EQ(table.BlocksMax(0), 80);
  EXPECT_EQ(table.BlocksMax(1), 100);
  EXPECT_DOUBLE_EQ(table.ShareOf(1), 0.75);
  table.at(1).service = 5.0;

  table.Set(std::vector<TenantOptions>{{.name = "a"}, {.name = "b", .blocks_max = 30}, {.name = "c"}});
  EXPECT_EQ(table.size(), 3);
  EXPECT_EQ(table.at(1).floor_rows, 0);
  EXPECT_EQ(table.at(1).service, 5.0);
  EXPECT_EQ(table.BlocksMax(0), 100);
  EXPECT_EQ(table.BlocksMax(1), 30);
}

TEST(TenantList, WhoIsGoneDilutesNobodysShare) {
  TenantList table(SchedulingPolicy::kFair, 100, 10);
  table.Set(std::vector<TenantOptions>{
      {.name = "a", .gone = true}, {.name = "b", .weight = 3.0}, {.name = "c"}, {.name = "d", .gone = true}});
  EXPECT_DOUBLE_EQ(table.ShareOf(1), 0.75);
  EXPECT_DOUBLE_EQ(table.ShareOf(0), 0.0);
}

TEST(TenantList, OnlySeveralTenantsOfAFairSchedulerTakeTurns) {
  TenantList one(SchedulingPolicy::kFair, 8, 2), fair(SchedulingPolicy::kFair, 8, 2),
      fcfs(SchedulingPolicy::kFcfs, 8, 2);
  one.Set(std::vector<TenantOptions>(1));
  fair.Set(std::vector<TenantOptions>(2));
  fcfs.Set(std::vector<TenantOptions>(2));
  EXPECT_FALSE(one.fair());
  EXPECT_TRUE(fair.fair());
  EXPECT_FALSE(fcfs.fair());
}

TEST(TenantList, IntegrityRecountsWhatIsAdmitted) {
  TenantList table(SchedulingPolicy::kFair, 8, 2);
  table.Set(std::vector<TenantOptions>(2));
  SequenceTable sequences(2, 2);
  const auto no_parks = [](int32_t) { return int64_t{0}; };
  const int32_t index = sequences.Take(1);
  sequences.at(index).request = {.id = 1, .tenant = 1, .prompt = {5, 6, 7}};
  sequences.Admit(index);
  EXPECT_FALSE(table.CheckIntegrity(sequences, 0, no_parks).ok());
  table.at(1).running = 1;
  EXPECT_FALSE(table.CheckIntegrity(sequences, 0, no_parks).ok()) << "it has a row";
  table.at(1).rows = 1;
  table.at(1).prompt_due = 3;
  EXPECT_TRUE(table.CheckIntegrity(sequences, 0, no_parks).ok()) << table.CheckIntegrity(sequences, 0, no_parks);
  EXPECT_FALSE(table.CheckIntegrity(sequences, 1, no_parks).ok()) << "nobody waits";
  table.at(0).reserved = 2;
  EXPECT_FALSE(table.CheckIntegrity(sequences, 0, no_parks).ok());
  EXPECT_TRUE(table.CheckIntegrity(sequences, 0, [](int32_t tenant) { return int64_t{tenant == 0 ? 2 : 0}; }).ok());
  table.at(0).reserved = 0;
  table.at(0).queue.push_back(3);
  EXPECT_TRUE(table.CheckIntegrity(sequences, 1, no_parks).ok());
  EXPECT_EQ(&table.of(sequences.at(index)), &table.at(1));
}

}  // namespace
}  // namespace hydrant
