#include "server/device_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hydrant {
namespace {

TEST(OpenDevice, TheProcessorIsAlwaysThere) {
  const absl::StatusOr<OpenedDevice> opened = OpenDevice("cpu", 2, false);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->device->name().substr(0, 4), "cpu ");
  EXPECT_FALSE(opened->memory_bytes.has_value());
  EXPECT_FALSE(opened->queues);
  EXPECT_TRUE(OpenDevice("auto", 1, true).ok());
}

TEST(OpenDevice, AGpuThatIsNotThereIsSaidByName) {
  const absl::StatusOr<OpenedDevice> opened = OpenDevice("cuda", 1, false);
  if (opened.ok()) {
    EXPECT_EQ(opened->device->name().substr(0, 5), "cuda ");
    EXPECT_GT(opened->memory_bytes.value_or(0), 0);
    EXPECT_TRUE(opened->queues);
    return;
  }
  EXPECT_EQ(opened.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(opened.status().message()), testing::StartsWith("--device cuda: "));
}

}  // namespace
}  // namespace hydrant
