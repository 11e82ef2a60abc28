#include "server/process/host_facts.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

namespace hydrant {
namespace {

TEST(HostFacts, CoresAreAtLeastOneAndNoMoreThanTheProcessMayUse) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  EXPECT_GE(UsableCores(), 1);
  EXPECT_LE(UsableCores(), CPU_COUNT(&allowed));

  cpu_set_t one;
  CPU_ZERO(&one);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(UsableCores(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(allowed), &allowed), 0);
}

TEST(HostFacts, MemoryIsSomeAndLessThanAPetabyte) {
  EXPECT_GT(AvailableMemoryBytes(), 1 << 20);
  EXPECT_LT(AvailableMemoryBytes(), int64_t{1} << 50);
}

TEST(HostFacts, TheOpenFileLimitIsRaisedToTheHardOne) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const int64_t raised = RaiseOpenFileLimit();
  rlimit after{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  EXPECT_GE(raised, 64);
  EXPECT_LE(raised, 1 << 30);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace hydrant
