#include "model/checkpoint/hf_rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/model/checkpoint/hf_reading.h"
#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

using nlohmann::json;

struct HfRopeFrequencies {
  const char* name;
  std::function<void(json&)> change;
  double second;  // of the four: theta^(-2/8) by default
  int32_t context;
};
class HfRope : public testing::TestWithParam<HfRopeFrequencies> {};
TEST_P(HfRope, IsReadFromEitherPlace) {
  const Reading read(With(GetParam().change));
  ASSERT_THAT(read.result(), IsOk());
  ASSERT_EQ(read.config().rope_inv_freq.size(), 4u);
  EXPECT_NEAR(read.config().rope_inv_freq[1], GetParam().second, 1e-12);
  EXPECT_EQ(read.config().context, GetParam().context);
}
INSTANTIATE_TEST_SUITE_P(
    , HfRope,
    testing::Values(
        HfRopeFrequencies{"Default", [](json&) {}, 0.1, 128},
        HfRopeFrequencies{"Theta", [](json& c) { c["rope_theta"] = 160000.0; }, 0.05, 128},
        HfRopeFrequencies{"IntegerTheta", [](json& c) { c["rope_theta"] = 10000; }, 0.1, 128},
        HfRopeFrequencies{"Linear",
                          [](json& c) {
                            c["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
                          },
                          0.025, 128},
        HfRopeFrequencies{"DynamicIsPlainWithinTheContext",
                          [](json& c) {
                            c["rope_scaling"] = {{"type", "dynamic"}, {"factor", 4.0}};
                          },
                          0.1, 128},
        HfRopeFrequencies{"Parameters",
                          [](json& c) {
                            c.erase("rope_theta");
                            c["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 160000.0}};
                          },
                          0.05, 128},
        HfRopeFrequencies{
            "YarnStretchesTheContext",
            [](json& c) {
              c["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 128}};
            },
            0.0625, 512}),
    [](const auto& test) { return test.param.name; });

// Heads of 8 elements, a context of 128.
json LongRope() {
  return {{"type", "longrope"},
          {"original_max_position_embeddings", 32},
          {"short_factor", {1, 1, 1, 1}},
          {"long_factor", {1, 2, 4, 8}}};
}

TEST(HfLongRope, HasFactorsForShortContextsAndForLongOnes) {
  const Reading read(With([](json& c) { c["rope_scaling"] = LongRope(); }));
  ASSERT_THAT(read.result(), IsOk());
  EXPECT_EQ(read.config().context, 128);
  EXPECT_NEAR(read.config().rope_frequencies(32)[1], 0.1, 1e-12);
  EXPECT_NEAR(read.config().rope_frequencies(33)[1], 0.05, 1e-12);
  EXPECT_NEAR(read.config().rope_frequencies(33)[3], 0.001 / 8, 1e-12);
  EXPECT_NEAR(read.config().rope_attention_factor, std::sqrt(1 + std::log(4.0) / std::log(32.0)), 1e-12);

  // Files of Phi say the original context outside, and that holds; `su` is what longrope was called first.
  const Reading outside(With([](json& c) {
    c["rope_scaling"] = LongRope();
    c["rope_scaling"]["type"] = "su";
    c["rope_scaling"]["attention_factor"] = 1.25;
    c["original_max_position_embeddings"] = 64;
  }));
  ASSERT_THAT(outside.result(), IsOk());
  EXPECT_NEAR(outside.config().rope_frequencies(64)[1], 0.1, 1e-12);
  EXPECT_NEAR(outside.config().rope_frequencies(65)[1], 0.05, 1e-12);
  EXPECT_EQ(outside.config().rope_attention_factor, 1.25);
}

struct WrongLongRope {
  const char* name;
  std::function<void(json&)> spoil;
  std::string part;
};
class HfLongRopeRefusal : public testing::TestWithParam<WrongLongRope> {};
TEST_P(HfLongRopeRefusal, NamesTheField) {
  EXPECT_THAT(Reading(With([](json& c) {
                c["rope_scaling"] = LongRope();
                GetParam().spoil(c["rope_scaling"]);
              })).result(),
              RefusedWith("config.json: ", "rope_scaling", GetParam().part));
}
INSTANTIATE_TEST_SUITE_P(
    , HfLongRopeRefusal,
    testing::Values(
        WrongLongRope{"NoShortFactor", [](json& r) { r.erase("short_factor"); }, "short_factor': is missing"},
        WrongLongRope{"NoLongFactor", [](json& r) { r["long_factor"] = nullptr; }, "long_factor': is missing"},
        WrongLongRope{"TooFew",
                      [](json& r) {
                        r["long_factor"] = {1, 2};
                      },
                      "long_factor has 2 elements for 8 rotated"},
        WrongLongRope{"Zero",
                      [](json& r) {
                        r["short_factor"] = {1, 0, 1, 1};
                      },
                      "short_factor has 0, which is not a positive number"},
        WrongLongRope{"Text",
                      [](json& r) {
                        r["short_factor"] = {1, "1", 1, 1};
                      },
                      "short_factor[1]': is not a number"},
        WrongLongRope{"NoOriginalContext", [](json& r) { r.erase("original_max_position_embeddings"); },
                      "has no original_max_position_embeddings"},
        WrongLongRope{"OriginalContextOfOne", [](json& r) { r["original_max_position_embeddings"] = 1; },
                      "original_max_position_embeddings 1 is not above 1"},
        WrongLongRope{"AttentionFactor", [](json& r) { r["attention_factor"] = -1; }, "attention_factor -1 is not"},
        WrongLongRope{"Magnitude", [](json& r) { r["long_mscale"] = 1.2; }, "long_mscale': is not supported"}),
    [](const auto& test) { return test.param.name; });

struct WrongRope {
  const char* name;
  std::function<void(json&)> spoil;
  std::vector<std::string> parts;
};
class HfRopeRefusal : public testing::TestWithParam<WrongRope> {};
TEST_P(HfRopeRefusal, NamesTheField) {
  std::vector<std::string> parts = GetParam().parts;
  parts.push_back("config.json: ");
  EXPECT_THAT(Reading(With(GetParam().spoil)).result(), RefusedWithParts(parts));
}
INSTANTIATE_TEST_SUITE_P(, HfRopeRefusal,
                         testing::Values(WrongRope{"RopeType",
                                                   [](json& c) {
                                                     c["rope_scaling"] = {{"rope_type", "proportional"}};
                                                   },
                                                   {"'rope_scaling': rope_type 'proportional' is not supported"}},
                                         WrongRope{"YarnOfPhi",
                                                   [](json& c) {
                                                     c["rope_scaling"] = {{"type", "yarn"}, {"long_factor", {1, 2}}};
                                                   },
                                                   {"rope_type 'yarn' with a long_factor is not supported"}},
                                         WrongRope{"RopeTypeMissing",
                                                   [](json& c) {
                                                     c["rope_scaling"] = {{"factor", 2}};
                                                   },
                                                   {"'rope_scaling': has no rope_type"}},
                                         WrongRope{"RopeFactorMissing",
                                                   [](json& c) {
                                                     c["rope_scaling"] = {{"type", "linear"}};
                                                   },
                                                   {"has no factor"}},
                                         WrongRope{"RopeFactorBelowOne",
                                                   [](json& c) {
                                                     c["rope_scaling"] = {{"type", "linear"}, {"factor", 0.5}};
                                                   },
                                                   {"'rope_scaling': factor 0.5 is not at least 1"}},
                                         WrongRope{"RopeFraction",
                                                   [](json& c) { c["partial_rotary_factor"] = 1.5; },
                                                   {"partial_rotary_factor 1.5"}}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace hydrant
