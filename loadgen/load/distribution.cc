#include "loadgen/load/distribution.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace hydrant {
namespace {

// Nothing is longer, as with the flags that are plain numbers: a prompt of 16 million tokens is 80 MB.
constexpr double kValueMax = 1 << 24;
constexpr const char* kNames[] = {"", "uniform", "normal", "lognormal", "exponential"};
constexpr size_t kNumbers[] = {1, 2, 2, 2, 1};

}  // namespace

Distribution Distribution::Around(double center, double ratio) {
  Distribution result(center);
  if (ratio <= 0) return result;
  result.kind_ = Kind::kUniform;
  result.a_ = std::floor(center * (1 - ratio));
  result.b_ = std::ceil(center * (1 + ratio));
  return result;
}

std::optional<Distribution> Distribution::Parse(std::string_view text) {
  std::vector<std::string> parts = absl::StrSplit(std::string(text), ':');
  Distribution result;
  for (size_t kind = 1; kind < std::size(kNames); ++kind) {
    if (parts[0] == kNames[kind]) result.kind_ = static_cast<Kind>(kind);
  }
  if (!result.fixed()) parts.erase(parts.begin());
  if (parts.size() != kNumbers[static_cast<size_t>(result.kind_)]) return std::nullopt;
  double* const values[] = {&result.a_, &result.b_};
  for (size_t i = 0; i < parts.size(); ++i) {
    double& value = *values[i];
    if (!absl::SimpleAtod(parts[i], &value) || !(value >= 0 && value <= kValueMax)) return std::nullopt;
  }
  if (result.kind_ == Kind::kUniform && result.a_ > result.b_) return std::nullopt;
  return result;
}

double Distribution::Sample(Random* random) const {
  switch (kind_) {
    case Kind::kFixed:
      return a_;
    case Kind::kUniform:
      return a_ + (b_ - a_) * random->Uniform();
    case Kind::kNormal:
      return std::clamp(a_ + b_ * random->Normal(), 0.0, kValueMax);
    case Kind::kLogNormal:
      return std::min(a_ * std::exp(b_ * random->Normal()), kValueMax);
    case Kind::kExponential:
      return std::min(a_ * random->Exponential(), kValueMax);
  }
  return a_;
}

int32_t Distribution::SampleCount(Random* random, int32_t min) const {
  // Both ends of a uniform range are as likely as what lies between.
  const double value = kind_ == Kind::kUniform
                           ? static_cast<double>(random->Integer(std::llround(a_), std::llround(b_)))
                           : std::round(Sample(random));
  return std::max(min, static_cast<int32_t>(value));
}

std::string Distribution::ToString() const {
  if (fixed()) return absl::StrCat(a_);
  const size_t kind = static_cast<size_t>(kind_);
  std::string text = absl::StrCat(kNames[kind], ":", a_);
  if (kNumbers[kind] == 2) absl::StrAppend(&text, ":", b_);
  return text;
}

}  // namespace hydrant
