// The oracle itself, against numbers worked out by hand.
#include "kernels/reference/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace hydrant::reference {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;

MATCHER_P(Near, tolerance, "") { return std::abs(std::get<0>(arg) - std::get<1>(arg)) <= tolerance; }

TEST(ReferenceTest, RoundsToNearestEvenInEveryDtype) {
  EXPECT_EQ(RoundTo(DType::kF32, 1.0 + 0x1p-25), 1.0);
  EXPECT_EQ(RoundTo(DType::kBF16, 1.0 + 0x1p-8), 1.0);               // a tie goes to the even neighbour
  EXPECT_EQ(RoundTo(DType::kBF16, 1.0 + 3 * 0x1p-8), 1.0 + 0x1p-6);  // and here that is the upper one
  EXPECT_EQ(RoundTo(DType::kBF16, 1.0 + 0x1.1p-8), 1.0 + 0x1p-7);
  EXPECT_EQ(RoundTo(DType::kF16, 1.0 + 0x1p-11), 1.0);
  EXPECT_EQ(RoundTo(DType::kF16, -1.0 - 3 * 0x1p-11), -1.0 - 0x1p-9);
  EXPECT_EQ(RoundTo(DType::kF16, 65519.0), 65504.0);
  EXPECT_EQ(RoundTo(DType::kF16, 65520.0), std::numeric_limits<double>::infinity());
  EXPECT_EQ(RoundTo(DType::kF16, 0x1p-24), 0x1p-24);  // the smallest subnormal
  EXPECT_EQ(RoundTo(DType::kF16, 0x1p-25), 0.0);
}

TEST(ReferenceTest, LinearAddsTheBias) {
  EXPECT_THAT(Linear(Values{1, 2}, 1, Values{3, 4, 5, -6}, 2, 2, Values{10, 20}), ElementsAre(21, 13));
  EXPECT_THAT(LinearMagnitude(Values{1, -2}, 1, Values{3, 4, 5, -6}, 2, 2), ElementsAre(11, 17));
}

TEST(ReferenceTest, ActivationsAtKnownPoints) {
  EXPECT_THAT(Activate(Activation::kSilu, 1.0), DoubleNear(0.7310585786300049, 1e-15));
  EXPECT_THAT(Activate(Activation::kGelu, 1.0), DoubleNear(0.8413447460685429, 1e-15));
  EXPECT_THAT(Activate(Activation::kGeluTanh, 1.0), DoubleNear(0.8411919906082768, 1e-12));
  EXPECT_EQ(Activate(Activation::kRelu, -1.0), 0.0);
  EXPECT_THAT(LinearGated(Activation::kRelu, Values{2}, 1, Values{3, 5}, 2, 1), ElementsAre(60));
}

TEST(ReferenceTest, NormsCentreOnlyInLayerNorm) {
  const Values ones = {1, 1};
  EXPECT_THAT(Norm(NormKind::kRms, ones, {}, 0.0, Values{3, 4}, 1, 2),
              Pointwise(Near(1e-15), Values{3 / std::sqrt(12.5), 4 / std::sqrt(12.5)}));
  EXPECT_THAT(Norm(NormKind::kLayer, ones, Values{0, 10}, 0.0, Values{3, 5}, 1, 2), ElementsAre(-1, 11));
}

TEST(ReferenceTest, RopePairsHalvesOfTheRotatedPart) {
  const std::vector<double> inv_freq = {M_PI / 2};
  const RopeSpec spec{.dims = 2, .inv_freq = inv_freq, .positions_max = 10};
  // A quarter turn takes (1, 2) to (-2, 1); the third and fourth elements are not rotated.
  EXPECT_THAT(Rope(spec, 1, Values{1, 2, 3, 4}, 1, 4), Pointwise(Near(1e-15), Values{-2, 1, 3, 4}));
}

TEST(ReferenceTest, AttentionWeighsValuesBySoftmax) {
  const double l = std::log(3.0);
  const AttentionResult result = Attention(Values{l, 0}, 1, Values{0, 9, 1, 9}, Values{0, 4, 8, 0}, 2, 2, 1.0);
  EXPECT_THAT(result.probabilities, Pointwise(Near(1e-15), Values{0.25, 0.75}));
  EXPECT_THAT(result.out, Pointwise(Near(1e-15), Values{6, 1}));
}

// Beside logits of log 3 and 0, a sink of log 4 takes half of the sum.
TEST(ReferenceTest, SinksTakeTheirShareAndAddNoValue) {
  const double l = std::log(3.0);
  const AttentionResult result =
      Attention(Values{l, 0}, 1, Values{0, 9, 1, 9}, Values{0, 4, 8, 0}, 2, 2, 1.0, 0, Values{std::log(4.0)});
  EXPECT_THAT(result.probabilities, Pointwise(Near(1e-15), Values{0.125, 0.375}));
  EXPECT_THAT(result.out, Pointwise(Near(1e-15), Values{3, 0.5}));
}

TEST(ReferenceTest, FiltersKeepWhatSamplingHeaderSays) {
  const Values logits = {std::log(0.4), std::log(0.3), std::log(0.2), std::log(0.1)};
  const auto filtered = [&](const SamplingParams& params) { return SamplingDistribution(logits, params); };
  EXPECT_THAT(filtered({}), Pointwise(Near(1e-15), Values{0.4, 0.3, 0.2, 0.1}));
  EXPECT_THAT(filtered({.top_k = 2}), Pointwise(Near(1e-15), Values{0.4 / 0.7, 0.3 / 0.7, 0, 0}));
  // The second token is kept because the first holds 0.4 < 0.5; the third is not because the two hold 0.7.
  EXPECT_THAT(filtered({.top_p = 0.5f}), Pointwise(Near(1e-15), Values{0.4 / 0.7, 0.3 / 0.7, 0, 0}));
  EXPECT_THAT(filtered({.min_p = 0.45f}), Pointwise(Near(1e-15), Values{0.4 / 0.9, 0.3 / 0.9, 0.2 / 0.9, 0}));
  // top_p acts on what top_k left: 0.4 / 0.7 = 0.57 reaches 0.55 alone.
  EXPECT_THAT(filtered({.top_p = 0.55f, .top_k = 2}), Pointwise(Near(1e-15), Values{1, 0, 0, 0}));
  EXPECT_THAT(filtered({.temperature = 0.5f, .top_k = 2}),
              Pointwise(Near(1e-15), Values{0.16 / 0.25, 0.09 / 0.25, 0, 0}));
}

}  // namespace
}  // namespace hydrant::reference
