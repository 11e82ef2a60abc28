#include "scheduler/scheduler_options.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/scheduler/driver.h"

namespace hydrant {
namespace {

struct OptionsCase {
  const char* name;
  void (*spoil)(SchedulerOptions&);
};

TEST(SchedulerOptions, ImpossibleOnesAreRefused) {
  const OptionsCase cases[] = {
      {"no blocks", [](SchedulerOptions& o) { o.blocks = 0; }},
      {"slots overflow", [](SchedulerOptions& o) { o.blocks = std::numeric_limits<int32_t>::max(); }},
      {"no sequences", [](SchedulerOptions& o) { o.sequences_max = 0; }},
      {"no queue", [](SchedulerOptions& o) { o.waiting_max = 0; }},
      {"a step that cannot hold prefill", [](SchedulerOptions& o) { o.tokens_max = o.sequences_max + 14; }},
      {"prefill below a block", [](SchedulerOptions& o) { o.prefill_tokens_max = 15; }},
      {"nobody", [](SchedulerOptions& o) { o.tenants.clear(); }},
      {"no weight", [](SchedulerOptions& o) { o.tenants[0].weight = 0; }},
      {"weight is not a number",
       [](SchedulerOptions& o) { o.tenants[0].weight = std::numeric_limits<double>::quiet_NaN(); }},
  };
  EXPECT_TRUE(SmallOptions(8).Validate().ok());
  for (const OptionsCase& c : cases) {
    SchedulerOptions options = SmallOptions(8);
    c.spoil(options);
    EXPECT_EQ(options.Validate().code(), absl::StatusCode::kInvalidArgument) << c.name;
  }
}

}  // namespace
}  // namespace hydrant
