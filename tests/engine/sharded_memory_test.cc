// A buffer of several ranks for which there is no memory. A program of its own: it replaces operator new.
#include "kernels/parallel/sharded_memory.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "kernels/cpu/runtime/cpu_buffer.h"
#include "tests/engine/failing_new.h"

namespace hydrant {
namespace {

// Addresses that this process has taken.
int64_t MappedPages() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages;
}

TEST(ShardedMemoryLeak, ABufferThatCannotBeNotedLeavesNoAddressesBehind) {
  constexpr size_t kBytes = size_t{1} << 40;
  AddressMap map;
  std::vector<std::unique_ptr<DeviceBuffer>> ranks;
  ranks.push_back(std::make_unique<CpuBuffer>(16));
  const int64_t before = MappedPages();
  ASSERT_GT(before, 0);
  bool thrown = false;
  {
    const MemoryRunsOut runs_out;
    FailNewAfter(0);
    try {
      const ShardedBuffer buffer(map, kBytes, std::move(ranks));
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    EXPECT_TRUE(NewFailed());
  }
  EXPECT_TRUE(thrown);
  EXPECT_LT(MappedPages() - before, static_cast<int64_t>(kBytes / 4096 / 2));
}

}  // namespace
}  // namespace hydrant
