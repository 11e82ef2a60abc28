#include "kernels/cpu/linear/expert_groups.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace hydrant {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<ChosenExpert> Choose(const std::vector<float>& logits, size_t count, bool normalised = false) {
  std::vector<ChosenExpert> chosen(count);
  ChooseExperts(logits, normalised, chosen);
  return chosen;
}

std::vector<int32_t> Numbers(const std::vector<ChosenExpert>& chosen) {
  std::vector<int32_t> numbers;
  for (const ChosenExpert& choice : chosen) numbers.push_back(choice.expert);
  return numbers;
}

using Ids = std::vector<int32_t>;

TEST(ChooseExperts, TakesTheLargestAndOfEqualOnesTheLowerNumber) {
  EXPECT_EQ(Numbers(Choose({0, 3, 1, 2}, 2)), (Ids{1, 3}));
  EXPECT_EQ(Numbers(Choose({2, 2, 2, 2}, 3)), (Ids{0, 1, 2}));
  EXPECT_EQ(Numbers(Choose({1, 2, 1, 2, 1}, 4)), (Ids{1, 3, 0, 2}));
  EXPECT_EQ(Numbers(Choose({-0.0f, 0.0f}, 2)), (Ids{0, 1}));
  EXPECT_EQ(Numbers(Choose({5}, 1)), Ids{0});
}

// Weights of a hostile file, or activations that overflowed: every choice is an expert, and none comes twice.
TEST(ChooseExperts, ChoosesAmongWhatIsNoNumber) {
  EXPECT_EQ(Numbers(Choose({kNaN, 1, kNaN}, 3)), (Ids{1, 0, 2}));
  EXPECT_EQ(Numbers(Choose({kNaN, kNaN, kNaN}, 2)), (Ids{0, 1}));
  EXPECT_EQ(Numbers(Choose({-kInfinity, kNaN, kInfinity, kInfinity}, 4)), (Ids{2, 3, 0, 1}));
}

TEST(ChooseExperts, WeightsAreProbabilitiesAmongAllOrAmongTheChosen) {
  const std::vector<float> logits = {0.5f, -1, 2, 1};
  double all = 0;
  for (const float logit : logits) all += std::exp(logit);
  const double first = std::exp(2.0) / all, second = std::exp(1.0) / all;
  const auto chosen = Choose(logits, 2);
  EXPECT_NEAR(chosen[0].weight, first, 1e-6);
  EXPECT_NEAR(chosen[1].weight, second, 1e-6);
  const auto normalised = Choose(logits, 2, /*normalised=*/true);
  EXPECT_NEAR(normalised[0].weight, first / (first + second), 1e-6);
  EXPECT_NEAR(normalised[1].weight, second / (first + second), 1e-6);
  // Far apart: nothing overflows.
  const auto far = Choose({3e38f, -3e38f}, 2, /*normalised=*/true);
  EXPECT_EQ(far[0].weight, 1);
  EXPECT_EQ(far[1].weight, 0);
}

TEST(ExpertGroups, HoldEveryChoiceOnceByExpertAndRow) {
  std::mt19937 random(1);
  constexpr int64_t kMostRows = 40, kPerRow = 3, kSevenExperts = 7;
  ExpertGroups groups;
  groups.Reserve(kMostRows, kPerRow, kSevenExperts);
  for (const int64_t rows : {int64_t{1}, int64_t{2}, kMostRows}) {
    std::vector<ChosenExpert> chosen;
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<int32_t> experts = {0, 1, 2, 3, 4, 5};  // nobody chooses the last one
      std::shuffle(experts.begin(), experts.end(), random);
      for (int64_t i = 0; i < kPerRow; ++i) {
        chosen.push_back({experts[static_cast<size_t>(i)], static_cast<float>(chosen.size())});
      }
    }
    groups.Sort(chosen, kPerRow, kSevenExperts);
    ASSERT_EQ(groups.rows().size(), chosen.size());
    size_t entry = 0, group = 0;
    for (int32_t expert = 0; expert < kSevenExperts; ++expert) {
      const size_t first = entry;
      for (size_t i = 0; i < chosen.size(); ++i) {
        if (chosen[i].expert != expert) continue;
        EXPECT_EQ(groups.rows()[entry], static_cast<int32_t>(i) / kPerRow);
        EXPECT_EQ(groups.weights()[entry], chosen[i].weight);
        ++entry;
      }
      if (entry == first) continue;
      ASSERT_LT(group, groups.groups().size());
      EXPECT_EQ(groups.groups()[group].expert, expert);
      EXPECT_EQ(groups.groups()[group].first, static_cast<int64_t>(first));
      EXPECT_EQ(groups.groups()[group].rows, static_cast<int64_t>(entry - first));
      ++group;
    }
    EXPECT_EQ(group, groups.groups().size());
  }
}

}  // namespace
}  // namespace hydrant
