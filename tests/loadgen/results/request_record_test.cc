#include "loadgen/results/request_record.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace hydrant {
namespace {

TEST(RequestRecord, TimesFollowVllmsDefinitions) {
  RequestRecord record;
  record.scheduled_s = 1;
  record.due_s = 1.5;
  record.sent_s = 1.6;
  record.first_s = 2.6;
  record.last_s = 4.6;
  record.end_s = 4.7;
  record.output_tokens = 5;
  EXPECT_DOUBLE_EQ(record.ttft_s(), 1.0);
  EXPECT_DOUBLE_EQ(record.tpot_s(), 0.5);
  EXPECT_DOUBLE_EQ(record.e2e_s(), 3.0);
  EXPECT_DOUBLE_EQ(record.queue_s(), 0.6);
  EXPECT_NEAR(record.lag_s(), 0.1, 1e-12);
  record.output_tokens = 1;
  EXPECT_EQ(record.tpot_s(), 0);
}

TEST(RequestRecord, EveryErrorHasAName) {
  std::set<std::string> names;
  for (size_t i = 0; i < kRequestErrors; ++i) names.insert(RequestErrorName(static_cast<RequestError>(i)));
  EXPECT_EQ(names.size(), kRequestErrors);
  EXPECT_STREQ(RequestErrorName(RequestError::kCancelled), "cancelled");
}

}  // namespace
}  // namespace hydrant
