#include "model/checkpoint/hf_rope.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/model/checkpoint/hf_reading.h"
#include "tests/support/status_matchers.h"

namespace hydrant {
namespace {

using nlohmann::json;

struct Frequencies {
  const char* name;
  std::function<void(json&)> change;
  double second;  // of the four: theta^(-2/8) by default
  int32_t context;
};
class HfRope : public testing::TestWithParam<Frequencies> {};
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
        Frequencies{"Default", [](json&) {}, 0.1, 128},
        Frequencies{"Theta", [](json& c) { c["rope_theta"] = 160000.0; }, 0.05, 128},
        Frequencies{"IntegerTheta", [](json& c) { c["rope_theta"] = 10000; }, 0.1, 128},
        Frequencies{"Linear",
                    [](json& c) {
                      c["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
                    },
                    0.025, 128},
        Frequencies{"DynamicIsPlainWithinTheContext",
                    [](json& c) {
                      c["rope_scaling"] = {{"type", "dynamic"}, {"factor", 4.0}};
                    },
                    0.1, 128},
        Frequencies{"Parameters",
                    [](json& c) {
                      c.erase("rope_theta");
                      c["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 160000.0}};
                    },
                    0.05, 128},
        Frequencies{
            "YarnStretchesTheContext",
            [](json& c) {
              c["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 128}};
            },
            0.0625, 512}),
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
                                                     c["rope_scaling"] = {{"rope_type", "longrope"}};
                                                   },
                                                   {"'rope_scaling': rope_type 'longrope' is not supported"}},
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
