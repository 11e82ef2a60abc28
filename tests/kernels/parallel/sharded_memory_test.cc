#include "kernels/parallel/sharded_memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "kernels/cpu/runtime/cpu_buffer.h"

namespace hydrant {
namespace {

std::vector<std::unique_ptr<DeviceBuffer>> TwoOf(size_t bytes) {
  std::vector<std::unique_ptr<DeviceBuffer>> buffers;
  for (int i = 0; i < 2; ++i) buffers.push_back(std::make_unique<CpuBuffer>(bytes));
  return buffers;
}

TEST(ShardedMemory, AnAddressNamesAPieceOfEveryRanksMemory) {
  AddressMap map;
  const ShardedBuffer first(map, 100, TwoOf(100));
  auto second = std::make_unique<ShardedBuffer>(map, 4 << 20, TwoOf(2 << 20), 64, 4);
  const ShardedBuffer empty(map, 0, TwoOf(0));
  const std::byte* address = static_cast<const std::byte*>(first.data());
  for (const size_t offset : {0, 1, 99}) {
    EXPECT_EQ(&map.Find(address + offset), &first);
    EXPECT_EQ(first.OffsetOf(address + offset), offset);
  }
  EXPECT_EQ(&map.Find(static_cast<const std::byte*>(second->data()) + (4 << 20) - 1), second.get());
  EXPECT_EQ(&map.Find(empty.data()), &empty);
  EXPECT_FALSE(first.by_head());
  EXPECT_TRUE(second->by_head());
  EXPECT_NE(first.of(0), first.of(1));
}

TEST(ShardedMemoryDeathTest, NothingLiesAtAnAddressItself) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  AddressMap map;
  const ShardedBuffer buffer(map, 100, TwoOf(100));
  EXPECT_DEATH(*static_cast<volatile char*>(buffer.data()) = 1, "");
  EXPECT_DEATH(map.Find(static_cast<const std::byte*>(buffer.data()) + 100), "");
}

}  // namespace
}  // namespace hydrant
