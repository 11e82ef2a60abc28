#include "model/config/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "model/files/file_error.h"
#include "model/text/str_cat.h"

namespace hydrant {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

double Llama3Frequency(const RopeScaling& s, double frequency) {
  const double wavelength = kTwoPi / frequency;
  if (wavelength < s.original_context / s.high_freq_factor) return frequency;
  if (wavelength > s.original_context / s.low_freq_factor) return frequency / s.factor;
  const double smooth =
      (s.original_context / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - smooth) * frequency / s.factor + smooth * frequency;
}

double YarnMagnitude(double scale, double mscale) { return scale <= 1 ? 1.0 : 0.1 * mscale * std::log(scale) + 1.0; }

double YarnAttentionFactor(const RopeScaling& s) {
  if (s.attention_factor) return *s.attention_factor;
  if (s.mscale.value_or(0) != 0 && s.mscale_all_dim.value_or(0) != 0) {
    return YarnMagnitude(s.factor, *s.mscale) / YarnMagnitude(s.factor, *s.mscale_all_dim);
  }
  return YarnMagnitude(s.factor, 1);
}

// Dimensions that turn more than beta_fast times within the original context keep their frequency, those that turn less
// than beta_slow times are slowed by the whole factor, a linear ramp lies between.
void YarnFrequencies(const RopeScaling& s, int32_t dims, std::vector<double>& inv_freq) {
  const auto dim_of_turns = [&](double turns) {
    return dims * std::log(s.original_context / (turns * kTwoPi)) / (2 * std::log(s.theta));
  };
  double low = dim_of_turns(s.beta_fast);
  double high = dim_of_turns(s.beta_slow);
  if (s.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dims - 1));
  if (low == high) high += 0.001;  // transformers' guard against the singular ramp
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    inv_freq[i] = inv_freq[i] / s.factor * ramp + inv_freq[i] * (1 - ramp);
  }
}

double LongRopeAttentionFactor(const RopeScaling& s) {
  if (s.attention_factor) return *s.attention_factor;
  return s.factor <= 1 ? 1.0 : std::sqrt(1 + std::log(s.factor) / std::log(s.original_context));
}

bool Positive(double x) { return std::isfinite(x) && x > 0; }

absl::Status CheckLongRope(const RopeScaling& s, int32_t dims, std::string_view file, std::string_view field) {
  // Its logarithm divides.
  if (!std::isfinite(s.original_context) || s.original_context <= 1) {
    return FileError(file, field, "original_max_position_embeddings ", s.original_context, " is not above 1");
  }
  if (!Positive(s.factor)) return FileError(file, field, "factor ", s.factor, " is not a positive number");
  if (s.attention_factor && !Positive(*s.attention_factor)) {
    return FileError(file, field, "attention_factor ", *s.attention_factor, " is not a positive number");
  }
  for (const std::vector<double>* factors : {&s.short_factors, &s.long_factors}) {
    const std::string_view name = factors == &s.short_factors ? "short_factor" : "long_factor";
    if (factors->size() != static_cast<size_t>(dims / 2)) {
      return FileError(file, field, name, " has ", factors->size(), " elements for ", dims, " rotated ones of a head");
    }
    for (const double factor : *factors) {
      if (!Positive(factor)) return FileError(file, field, name, " has ", factor, ", which is not a positive number");
    }
  }
  return absl::OkStatus();
}

absl::Status Check(const RopeScaling& s, int32_t dims, std::string_view file, std::string_view field) {
  if (!Positive(s.theta)) return FileError(file, field, "the rotary base ", s.theta, " is not a positive number");
  if (s.kind == RopeKind::kDefault) return absl::OkStatus();
  if (s.kind == RopeKind::kLongRope) return CheckLongRope(s, dims, file, field);
  if (!std::isfinite(s.factor) || s.factor < 1)
    return FileError(file, field, "factor ", s.factor, " is not at least 1");
  if (s.kind == RopeKind::kLinear || s.kind == RopeKind::kDynamic) return absl::OkStatus();
  if (!Positive(s.original_context)) {
    return FileError(file, field, "original_max_position_embeddings ", s.original_context, " is not a positive number");
  }
  if (s.kind == RopeKind::kLlama3) {
    if (!Positive(s.low_freq_factor) || !Positive(s.high_freq_factor) || s.high_freq_factor <= s.low_freq_factor) {
      return FileError(file, field, "low_freq_factor ", s.low_freq_factor, " and high_freq_factor ", s.high_freq_factor,
                       " are not positive and in this order");
    }
    return absl::OkStatus();
  }
  if (!Positive(s.beta_fast) || !Positive(s.beta_slow))
    return FileError(file, field, "beta_fast and beta_slow must be positive");
  if (s.theta == 1) return FileError(file, field, "the rotary base must not be 1 under yarn");
  for (const std::optional<double>& x : {s.attention_factor, s.mscale, s.mscale_all_dim}) {
    if (x && (!std::isfinite(*x) || *x < 0))
      return FileError(file, field, "attention factor or mscale ", *x, " is out of range");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyRopeScaling(const RopeScaling& scaling, std::string_view file, std::string_view field,
                              ModelConfig& config) {
  // Also reached before ValidateModelConfig has seen rope_dims, which then refuses the empty table.
  const int32_t dims = std::clamp(config.rope_dims, 0, 1 << 16);
  HYDRANT_RETURN_IF_ERROR(Check(scaling, dims, file, field));
  config.rope_inv_freq.resize(static_cast<size_t>(dims / 2));
  for (size_t i = 0; i < config.rope_inv_freq.size(); ++i) {
    config.rope_inv_freq[i] = std::pow(scaling.theta, -2.0 * static_cast<double>(i) / dims);
  }
  switch (scaling.kind) {
    case RopeKind::kDefault:
    case RopeKind::kDynamic:
      break;
    case RopeKind::kLinear:
      for (double& frequency : config.rope_inv_freq) frequency /= scaling.factor;
      break;
    case RopeKind::kLlama3:
      for (double& frequency : config.rope_inv_freq) frequency = Llama3Frequency(scaling, frequency);
      break;
    case RopeKind::kYarn:
      YarnFrequencies(scaling, dims, config.rope_inv_freq);
      config.rope_attention_factor = YarnAttentionFactor(scaling);
      break;
    case RopeKind::kLongRope:
      config.rope_long_inv_freq = config.rope_inv_freq;
      for (size_t i = 0; i < config.rope_inv_freq.size(); ++i) {
        config.rope_inv_freq[i] /= scaling.short_factors[i];
        config.rope_long_inv_freq[i] /= scaling.long_factors[i];
      }
      config.rope_short_context = scaling.original_context;
      config.rope_attention_factor = LongRopeAttentionFactor(scaling);
      break;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> PlainFrequencies(double theta, int32_t dims, std::string_view file,
                                                     std::string_view field) {
  ModelConfig plain;
  plain.rope_dims = dims;
  if (absl::Status status = ApplyRopeScaling({.theta = theta}, file, field, plain); !status.ok()) return status;
  return std::move(plain.rope_inv_freq);
}

}  // namespace hydrant
