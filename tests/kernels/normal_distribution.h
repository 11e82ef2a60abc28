// Random numbers of a normal distribution, for operands of tests.
#ifndef HYDRANT_TESTS_KERNELS_NORMAL_DISTRIBUTION_H_
#define HYDRANT_TESTS_KERNELS_NORMAL_DISTRIBUTION_H_

#include <cmath>
#include <numbers>

namespace hydrant {

// In place of std::normal_distribution, which takes three logarithms of long doubles for each number: an instrumented test of
// attention spent a third of its time on its operands. Box and Muller's method, one number of the two.
class NormalDistribution {
 public:
  NormalDistribution(float mean, float deviation) : mean_(mean), deviation_(deviation) {}

  // `engine` gives at least 32 random bits at a time; two of its numbers make one.
  template <typename Engine>
  float operator()(Engine& engine) {
    const float radius = std::sqrt(-2.0f * std::log(Uniform(engine)));
    return mean_ + deviation_ * radius * std::cos(2.0f * std::numbers::pi_v<float> * Uniform(engine));
  }

 private:
  // In (0, 1].
  template <typename Engine>
  static float Uniform(Engine& engine) {
    return (static_cast<float>(engine() >> 8 & 0xffffff) + 0.5f) * 0x1p-24f;
  }

  float mean_, deviation_;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_KERNELS_NORMAL_DISTRIBUTION_H_
