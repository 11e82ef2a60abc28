#include "model/config/rope_scaling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

ModelConfig Apply(const RopeScaling& scaling, int32_t dims) {
  ModelConfig config;
  config.rope_dims = dims;
  EXPECT_THAT(ApplyRopeScaling(scaling, "f", "rope", config), IsOk());
  return config;
}

// Computed with ROPE_INIT_FUNCTIONS of Hugging Face transformers 5.23, in fp32: hence the relative tolerance.
void ExpectFrequencies(const ModelConfig& config, const std::vector<std::pair<size_t, double>>& expected) {
  for (const auto& [index, value] : expected) EXPECT_NEAR(config.rope_inv_freq[index], value, 3e-6 * value) << index;
}

TEST(RopeScaling, DefaultIsThePowersOfTheBase) {
  const ModelConfig config = Apply({}, 8);
  EXPECT_EQ(config.rope_inv_freq.size(), 4u);
  ExpectFrequencies(config, {{0, 1}, {1, 0.1}, {2, 0.01}, {3, 0.001}});
  EXPECT_EQ(config.rope_attention_factor, 1);
}

TEST(RopeScaling, LinearDividesEveryFrequency) {
  RopeScaling scaling;
  scaling.kind = RopeKind::kLinear;
  scaling.factor = 4;
  ExpectFrequencies(Apply(scaling, 16),
                    {{0, 0.25}, {1, 0.079056941}, {2, 0.025}, {4, 0.0024999999}, {7, 7.9056947e-05}});
}

TEST(RopeScaling, Llama3DividesTheSlowFrequenciesOnly) {
  RopeScaling scaling;
  scaling.kind = RopeKind::kLlama3;
  scaling.theta = 500000;
  scaling.factor = 8;
  scaling.original_context = 8192;
  ExpectFrequencies(Apply(scaling, 128), {{0, 1.0},
                                          {1, 0.81461722},
                                          {16, 0.037606031},
                                          {29, 0.0021665706},
                                          {32, 0.00052484602},
                                          {35, 9.5562122e-05},
                                          {48, 6.6478697e-06},
                                          {63, 3.0689259e-07}});
}

TEST(RopeScaling, YarnRampsBetweenTheTwo) {
  RopeScaling scaling;
  scaling.kind = RopeKind::kYarn;
  scaling.theta = 1000000;
  scaling.factor = 4;
  scaling.original_context = 32768;
  const ModelConfig config = Apply(scaling, 128);
  EXPECT_NEAR(config.rope_attention_factor, 1.138629436111989, 1e-12);
  ExpectFrequencies(config, {{0, 1.0},
                             {1, 0.80584222},
                             {16, 0.031622779},
                             {29, 0.0014051124},
                             {32, 0.00060294115},
                             {35, 0.00024625839},
                             {48, 7.9056936e-06},
                             {63, 3.1023444e-07}});
}

TEST(RopeScaling, YarnTakesMagnitudesAndUnroundedEnds) {
  RopeScaling scaling;
  scaling.kind = RopeKind::kYarn;
  scaling.factor = 40;
  scaling.original_context = 4096;
  scaling.mscale = 0.707;
  scaling.mscale_all_dim = 1;
  scaling.truncate = false;
  const ModelConfig config = Apply(scaling, 64);
  EXPECT_NEAR(config.rope_attention_factor, 0.9210423553163399, 1e-12);
  ExpectFrequencies(config, {{0, 1.0},
                             {1, 0.7498942},
                             {8, 0.1},
                             {13, 0.018860061},
                             {16, 0.0055240626},
                             {19, 0.0013051096},
                             {24, 2.4999999e-05},
                             {31, 3.3338035e-06}});
  scaling.attention_factor = 1.5;
  EXPECT_EQ(Apply(scaling, 64).rope_attention_factor, 1.5);
}

TEST(RopeScaling, RefusesNumbersWithoutMeaning) {
  ModelConfig config;
  config.rope_dims = 8;
  const auto refused = [&](RopeScaling scaling, const std::string& message) {
    EXPECT_THAT(ApplyRopeScaling(scaling, "f", "rope", config), RefusedWith("f: rope: ", message));
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const double theta : {0.0, -1.0, kNan, HUGE_VAL}) refused({.theta = theta}, "the rotary base");
  for (const double factor : {0.5, 0.0, kNan, HUGE_VAL})
    refused({.kind = RopeKind::kLinear, .factor = factor}, "factor");
  refused({.kind = RopeKind::kLlama3, .factor = 8}, "original_max_position_embeddings 0");
  refused({.kind = RopeKind::kLlama3, .factor = 8, .original_context = 64, .low_freq_factor = 4, .high_freq_factor = 4},
          "low_freq_factor 4");
  refused({.kind = RopeKind::kYarn, .factor = 8, .original_context = 64, .beta_fast = 0}, "beta_fast");
  refused({.kind = RopeKind::kYarn, .theta = 1, .factor = 8, .original_context = 64}, "must not be 1");
  refused({.kind = RopeKind::kYarn, .factor = 8, .original_context = 64, .mscale = kNan}, "mscale");
}

}  // namespace
}  // namespace hydrant
