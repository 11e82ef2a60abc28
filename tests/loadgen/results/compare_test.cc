#include "loadgen/results/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loadgen/load/random.h"

namespace hydrant {
namespace {

using testing::HasSubstr;

// Requests of about `ttft_s`, each its own conversation.
RunResult Round(double ttft_s, uint64_t seed, size_t requests = 20) {
  RunResult run;
  Random random(seed);
  for (size_t i = 0; i < requests; ++i) {
    RequestRecord record;
    record.conversation_idx = i;
    record.sent_s = static_cast<double>(i);
    record.first_s = record.sent_s + ttft_s * (0.9 + 0.2 * random.Uniform());
    record.last_s = record.end_s = record.first_s + 1;
    record.output_tokens = 11;
    run.records.push_back(record);
  }
  run.duration_s = static_cast<double>(requests) * ttft_s;
  return run;
}

const CompareLine& Find(const std::vector<CompareLine>& lines, const std::string& name) {
  for (const CompareLine& line : lines) {
    if (line.name == name) return line;
  }
  ADD_FAILURE() << name;
  return lines[0];
}

TEST(Compare, FindsTheRatio) {
  std::vector<CompareRound> rounds;
  for (uint64_t i = 0; i < 6; ++i) rounds.push_back({Round(1, i), Round(2, 100 + i)});
  const std::vector<CompareLine> lines = CompareServers(rounds, 1);
  const CompareLine& ttft = Find(lines, "mean TTFT (ms)");
  EXPECT_NEAR(ttft.ratio.estimate, 2, 0.05);
  EXPECT_TRUE(ttft.differs());
  EXPECT_EQ(ttft.pairs, 120u);
  EXPECT_NEAR(Find(lines, "output tok/s").ratio.estimate, 0.5, 1e-9);
  EXPECT_EQ(Find(lines, "output tok/s").pairs, 6u);
  EXPECT_FALSE(Find(lines, "median TPOT (ms)").differs()) << "both take 100 ms a token";
  EXPECT_THAT(CompareTable("a", "b", lines), HasSubstr("no difference shown"));
}

TEST(Compare, SeesNoDifferenceInTheSame) {
  std::vector<CompareRound> rounds;
  for (uint64_t i = 0; i < 6; ++i) rounds.push_back({Round(1, i), Round(1, 100 + i)});
  const CompareLine line = Find(CompareServers(rounds, 1), "mean TTFT (ms)");
  EXPECT_FALSE(line.differs()) << line.ratio.low << " to " << line.ratio.high;
}

TEST(Compare, SeesNoDifferenceWhereNothingWasMeasured) {
  const auto short_round = [](uint64_t seed) {
    RunResult round = Round(1, seed);
    for (RequestRecord& record : round.records) record.output_tokens = 1;  // which has no time per token
    return round;
  };
  const std::vector<CompareLine> lines =
      CompareServers({{short_round(1), short_round(2)}, {short_round(3), short_round(4)}}, 1);
  EXPECT_EQ(Find(lines, "mean TPOT (ms)").first, 0);
  EXPECT_FALSE(Find(lines, "mean TPOT (ms)").differs());
  EXPECT_FALSE(Find(CompareServers({}, 1), "mean TTFT (ms)").differs());
}

TEST(Compare, AnswersOfOneTokenHaveNoTimePerToken) {
  CompareRound round{Round(1, 1, 4), Round(1, 2, 4)};
  round.first.records[0].output_tokens = 1;
  round.second.records[1].output_tokens = 0;
  const std::vector<CompareLine> lines = CompareServers({round}, 1);
  const CompareLine& line = Find(lines, "mean TPOT (ms)");
  EXPECT_EQ(line.pairs, 2u);
  EXPECT_NEAR(line.first, 100, 1e-3);
  EXPECT_NEAR(line.second, 100, 1e-3);
  EXPECT_EQ(Find(lines, "mean E2E (ms)").pairs, 4u);
}

TEST(Compare, FailuresAreLeftOutOnBothSides) {
  CompareRound round{Round(1, 1, 3), Round(1, 1, 3)};
  round.second.records[0].error = RequestError::kTimeout;
  round.first.records[1].error = RequestError::kTimeout;
  EXPECT_EQ(Find(CompareServers({round}, 1), "mean E2E (ms)").pairs, 1u);
}

TEST(Compare, RoundsAreJoinedInTime) {
  const RunResult a = Round(1, 1, 2);
  const RunResult b = Round(1, 2, 2);
  const RunResult joined = JoinRounds({&a, &b});
  ASSERT_EQ(joined.records.size(), 4u);
  EXPECT_DOUBLE_EQ(joined.duration_s, 4);
  EXPECT_DOUBLE_EQ(joined.records[2].sent_s, b.records[0].sent_s + 2);
  EXPECT_DOUBLE_EQ(joined.records[2].ttft_s(), b.records[0].first_s + 2 - (b.records[0].sent_s + 2));
}

}  // namespace
}  // namespace hydrant
