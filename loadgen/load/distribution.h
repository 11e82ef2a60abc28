// A distribution of lengths (tokens) or times (seconds), as flags spell it:
//   512   uniform:LOW:HIGH   normal:MEAN:DEVIATION   lognormal:MEDIAN:SIGMA   exponential:MEAN
//
// Thread: any (plain data).
#ifndef HYDRANT_LOADGEN_LOAD_DISTRIBUTION_H_
#define HYDRANT_LOADGEN_LOAD_DISTRIBUTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "loadgen/load/random.h"

namespace hydrant {

class Distribution {
 public:
  // Always `value`.
  explicit Distribution(double value = 0) : a_(value) {}
  // Whole numbers in [floor(center * (1 - ratio)), ceil(center * (1 + ratio))]: vLLM's --random-range-ratio.
  static Distribution Around(double center, double ratio);
  // nullopt: not one of the forms above, or a number in it is negative or not finite.
  static std::optional<Distribution> Parse(std::string_view text);

  // Never negative.
  double Sample(Random* random) const;
  // Rounded, and at least `min`.
  int32_t SampleCount(Random* random, int32_t min) const;
  // In the form that Parse reads.
  std::string ToString() const;

  bool fixed() const { return kind_ == Kind::kFixed; }
  double first() const { return a_; }  // the value, low end, mean or median

 private:
  enum class Kind { kFixed, kUniform, kNormal, kLogNormal, kExponential };
  Kind kind_ = Kind::kFixed;
  double a_ = 0;
  double b_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_LOAD_DISTRIBUTION_H_
