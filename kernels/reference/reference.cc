#include "kernels/reference/reference.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/philox.h"

namespace hydrant::reference {

Values ToDouble(std::span<const float> x) { return Values(x.begin(), x.end()); }

double RoundTo(DType dtype, double x) {
  const float single = static_cast<float>(x);
  if (dtype == DType::kF32 || !std::isfinite(single) || single == 0.0f) return single;
  if (dtype == DType::kBF16) {
    const uint32_t bits = std::bit_cast<uint32_t>(single);
    return std::bit_cast<float>((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000u);
  }
  // fp16: 11 significant bits down to 2^-14, then a fixed grid of 2^-24; above 65,504 plus half a step it is infinite.
  int exponent = 0;
  std::frexp(single, &exponent);  // |single| in [2^(exponent-1), 2^exponent)
  const double step = std::ldexp(1.0, std::max(exponent - 11, -24));
  const double rounded = std::nearbyint(single / step) * step;
  return std::abs(rounded) > 65504.0 ? std::copysign(std::numeric_limits<double>::infinity(), rounded) : rounded;
}

Values RoundTo(DType dtype, ValuesView x) {
  Values y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = RoundTo(dtype, x[i]);
  return y;
}

Values RoundTo(KvType type, ValuesView head) {
  if (type != KvType::kInt8) return RoundTo(DTypeOf(type), head);
  float largest = 0.0f;
  for (const double x : head) {
    if (!std::isfinite(static_cast<float>(x))) return Values(head.size(), std::numeric_limits<double>::quiet_NaN());
    largest = std::max(largest, std::abs(static_cast<float>(x)));
  }
  if (largest < kInt8Smallest) return Values(head.size(), 0.0);
  const float scale = largest / 127.0f, factor = 127.0f / largest;
  Values kept;
  for (const double x : head) {
    kept.push_back(static_cast<double>(scale * std::nearbyint(static_cast<float>(x) * factor)));
  }
  return kept;
}

Values Linear(ValuesView x, int64_t n, ValuesView w, int64_t rows, int64_t cols, ValuesView bias) {
  assert(std::ssize(x) == n * cols && std::ssize(w) == rows * cols);
  Values y(n * rows);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t r = 0; r < rows; ++r) {
      double sum = bias.empty() ? 0.0 : bias[r];
      for (int64_t c = 0; c < cols; ++c) sum += x[i * cols + c] * w[r * cols + c];
      y[i * rows + r] = sum;
    }
  }
  return y;
}

Values LinearMagnitude(ValuesView x, int64_t n, ValuesView w, int64_t rows, int64_t cols, ValuesView bias) {
  const auto absolute = [](ValuesView values) {
    Values result(values.size());
    std::transform(values.begin(), values.end(), result.begin(), [](double v) { return std::abs(v); });
    return result;
  };
  return Linear(absolute(x), n, absolute(w), rows, cols, absolute(bias));
}

Values Adapted(ValuesView x, int64_t n, ValuesView a, ValuesView b, int64_t rank, double scale, int64_t rows,
               int64_t cols) {
  Values inner = Linear(x, n, a, rank, cols);
  for (double& value : inner) value *= scale;
  return Linear(inner, n, b, rows, rank);
}

double Activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kGelu:
      return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kClampedSwish:
      x = std::min(x, static_cast<double>(kSwishLimit));
      return x / (1.0 + std::exp(-static_cast<double>(kSwishSlope) * x));
  }
  assert(false);
  return 0.0;
}

double UpFactor(Activation activation, double up) {
  if (activation != Activation::kClampedSwish) return up;
  return std::clamp(up, -static_cast<double>(kSwishLimit), static_cast<double>(kSwishLimit)) + 1;
}

Values LinearGated(Activation activation, ValuesView x, int64_t n, ValuesView w, int64_t rows, int64_t cols,
                   ValuesView bias) {
  const Values both = Linear(x, n, w, rows, cols, bias);
  const int64_t half = rows / 2;
  Values y(n * half);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t r = 0; r < half; ++r)
      y[i * half + r] = Activate(activation, both[i * rows + r]) * UpFactor(activation, both[i * rows + half + r]);
  }
  return y;
}

Values Experts(const ExpertRouting& routing, Activation activation, ValuesView x, int64_t n, int64_t hidden,
               ValuesView logits, const std::vector<Values>& up, const std::vector<Values>& down,
               const std::vector<Values>& up_bias, const std::vector<Values>& down_bias) {
  const auto experts = static_cast<int64_t>(up.size());
  Values y(static_cast<size_t>(n * hidden));
  for (int64_t row = 0; row < n; ++row) {
    const ValuesView of_row = logits.subspan(static_cast<size_t>(row * experts), static_cast<size_t>(experts));
    const Values log_probabilities = LogSoftmax(of_row);
    std::vector<int32_t> chosen = Ranked(of_row);
    chosen.resize(static_cast<size_t>(routing.per_row));
    double sum = 0;
    for (const int32_t expert : chosen) sum += std::exp(log_probabilities[static_cast<size_t>(expert)]);
    for (const int32_t number : chosen) {
      const auto expert = static_cast<size_t>(number);
      const double weight = std::exp(log_probabilities[expert]) / (routing.normalised ? sum : 1);
      const int64_t ffn = static_cast<int64_t>(up[expert].size()) / (2 * hidden);
      const ValuesView in = x.subspan(static_cast<size_t>(row * hidden), static_cast<size_t>(hidden));
      const Values inner = LinearGated(activation, in, 1, up[expert], 2 * ffn, hidden,
                                       up_bias.empty() ? ValuesView() : ValuesView(up_bias[expert]));
      const Values out =
          Linear(inner, 1, down[expert], hidden, ffn, down_bias.empty() ? ValuesView() : ValuesView(down_bias[expert]));
      for (int64_t i = 0; i < hidden; ++i)
        y[static_cast<size_t>(row * hidden + i)] += weight * out[static_cast<size_t>(i)];
    }
  }
  return y;
}

Values Norm(NormKind kind, ValuesView weight, ValuesView bias, double eps, ValuesView x, int64_t n, int64_t cols) {
  assert(std::ssize(x) == n * cols && std::ssize(weight) == cols);
  Values y(n * cols);
  for (int64_t i = 0; i < n; ++i) {
    const ValuesView row = x.subspan(i * cols, cols);
    const double mean = kind == NormKind::kLayer ? std::accumulate(row.begin(), row.end(), 0.0) / cols : 0.0;
    double square_sum = 0.0;
    for (double v : row) square_sum += (v - mean) * (v - mean);
    const double factor = 1.0 / std::sqrt(square_sum / cols + eps);
    for (int64_t c = 0; c < cols; ++c) {
      y[i * cols + c] = (row[c] - mean) * factor * weight[c] + (bias.empty() ? 0.0 : bias[c]);
    }
  }
  return y;
}

Values Embed(ValuesView table, int64_t cols, std::span<const int32_t> ids) {
  Values y;
  y.reserve(ids.size() * cols);
  for (int32_t id : ids) y.insert(y.end(), table.begin() + id * cols, table.begin() + (id + 1) * cols);
  return y;
}

Values Embed(ValuesView table, int64_t cols, std::span<const int32_t> ids, ValuesView position_table,
             std::span<const int64_t> positions) {
  assert(ids.size() == positions.size());
  Values y = Embed(table, cols, ids);
  for (size_t i = 0; i < positions.size(); ++i) {
    for (int64_t c = 0; c < cols; ++c) y[i * cols + c] += position_table[positions[i] * cols + c];
  }
  return y;
}

Values Rope(const RopeSpec& spec, int64_t position, ValuesView x, int64_t heads, int64_t head_dim) {
  assert(std::ssize(x) == heads * head_dim && spec.dims <= head_dim);
  Values y(x.begin(), x.end());
  const int64_t half = spec.dims / 2;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * spec.inv_freq[i];
      const double cosine = std::cos(angle) * spec.attention_factor, sine = std::sin(angle) * spec.attention_factor;
      const double first = x[h * head_dim + i], second = x[h * head_dim + i + half];
      y[h * head_dim + i] = first * cosine - second * sine;
      y[h * head_dim + i + half] = second * cosine + first * sine;
    }
  }
  return y;
}

AttentionResult Attention(ValuesView q, int64_t heads, ValuesView k, ValuesView v, int64_t slots, int64_t head_dim,
                          double scale, double softcap, ValuesView sinks) {
  assert(slots > 0 && std::ssize(k) >= slots * head_dim && std::ssize(v) >= slots * head_dim);
  AttentionResult result{Values(heads * head_dim), Values(heads * slots)};
  for (int64_t h = 0; h < heads; ++h) {
    double* p = &result.probabilities[h * slots];
    for (int64_t s = 0; s < slots; ++s) {
      double sum = 0.0;
      for (int64_t d = 0; d < head_dim; ++d) sum += q[h * head_dim + d] * k[s * head_dim + d];
      p[s] = SoftCap(softcap, sum * scale);
    }
    double largest = *std::max_element(p, p + slots);
    if (!sinks.empty()) largest = std::max(largest, sinks[h]);
    double total = sinks.empty() ? 0.0 : std::exp(sinks[h] - largest);
    for (int64_t s = 0; s < slots; ++s) total += p[s] = std::exp(p[s] - largest);
    for (int64_t s = 0; s < slots; ++s) {
      p[s] /= total;
      for (int64_t d = 0; d < head_dim; ++d) result.out[h * head_dim + d] += p[s] * v[s * head_dim + d];
    }
  }
  return result;
}

double SoftCap(double cap, double x) { return cap > 0 ? cap * std::tanh(x / cap) : x; }

Values LogSoftmax(ValuesView logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double total = 0.0;
  for (double l : logits) total += std::exp(l - largest);
  Values y(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) y[i] = logits[i] - largest - std::log(total);
  return y;
}

std::vector<int32_t> Ranked(ValuesView values) {
  std::vector<int32_t> ids(values.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) { return values[a] > values[b]; });
  return ids;
}

Values AdjustedLogits(ValuesView logits, const LogitAdjustments& adjustments) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  Values y(logits.begin(), logits.end());
  if (!adjustments.allowed.empty()) {
    std::fill(y.begin(), y.end(), kNever);
    for (int32_t id : adjustments.allowed) y[id] = logits[id];
  }
  for (size_t id = 0; id < y.size() && !adjustments.allowed_bits.empty(); ++id) {
    if ((adjustments.allowed_bits[id / 32] >> (id % 32) & 1) == 0) y[id] = kNever;
  }
  Values unbanned = y;
  for (int32_t id : adjustments.banned) y[id] = kNever;
  if (std::none_of(y.begin(), y.end(), [](double l) { return std::isfinite(l); })) y = std::move(unbanned);
  for (const TokenBias& bias : adjustments.biases) y[bias.id] += bias.bias;
  for (const TokenCount& seen : adjustments.counts) {
    double& l = y[seen.id];
    l = l > 0.0 ? l / adjustments.repetition : l * adjustments.repetition;
    l -= static_cast<double>(adjustments.frequency) * seen.count;
    if (seen.count > 0) l -= adjustments.presence;
  }
  return y;
}

Values SamplingDistribution(ValuesView logits, const SamplingParams& params) {
  assert(params.temperature > 0.0f);
  const std::vector<int32_t> ranked = Ranked(logits);
  const double largest = logits[ranked[0]];
  Values p(logits.size(), 0.0);
  const auto weight = [&](int32_t id) { return std::exp((logits[id] - largest) / params.temperature); };

  size_t kept = 0;  // the first `kept` of `ranked` survive
  while (kept < ranked.size() && weight(ranked[kept]) >= params.min_p) ++kept;
  if (params.top_k > 0) kept = std::min(kept, static_cast<size_t>(params.top_k));
  double total = 0.0;
  for (size_t i = 0; i < kept; ++i) total += weight(ranked[i]);
  if (params.top_p < 1.0f) {
    double above = weight(ranked[0]);  // the mass of the better tokens; the best is always kept
    size_t nucleus = 1;
    while (nucleus < kept && above < params.top_p * total) above += weight(ranked[nucleus++]);
    kept = nucleus;
    total = above;
  }
  for (size_t i = 0; i < kept; ++i) p[ranked[i]] = weight(ranked[i]) / total;
  return p;
}

int32_t Draw(ValuesView distribution, const SamplingParams& params, int64_t position, double* margin) {
  const double u = PhiloxUniform(params.key, position);
  double below = 0.0;
  int32_t id = 0, last = 0;
  for (; id < std::ssize(distribution); ++id) {
    if (distribution[id] > 0.0) last = id;
    if (below + distribution[id] > u) break;
    below += distribution[id];
  }
  if (id == std::ssize(distribution)) {  // u beyond a total that rounded below 1
    id = last;
    below -= distribution[last];
  }
  if (margin != nullptr) *margin = std::min(u - below, below + distribution[id] - u);
  return id;
}

SampleResult Sample(ValuesView logits, const SampleRequest& request, double* margin) {
  SampleResult result;
  if (margin != nullptr) *margin = 1.0;
  bool any = false;
  for (double l : logits) {
    if (std::isnan(l) || l == std::numeric_limits<double>::infinity()) result.finite = false;
    any = any || std::isfinite(l);
  }
  if (!any) result.finite = false;
  if (!result.finite) return result;

  const std::vector<int32_t> ranked = Ranked(logits);
  if (request.scored_id >= 0) {
    result.id = request.scored_id;
  } else {
    Values adjusted(logits.begin(), logits.end());
    if (request.adjustments != nullptr) adjusted = AdjustedLogits(logits, *request.adjustments);
    if (std::none_of(adjusted.begin(), adjusted.end(), [](double l) { return std::isfinite(l); })) {
      result.finite = false;
      result.no_token = true;
      return result;
    }
    if (request.params->temperature == 0.0f) {
      result.id = Ranked(adjusted)[0];
    } else {
      result.id = Draw(SamplingDistribution(adjusted, *request.params), *request.params, request.position, margin);
    }
  }
  if (request.logprobs >= 0) {
    const Values logprobs = LogSoftmax(logits);
    result.logprob = static_cast<float>(logprobs[result.id]);
    result.best = ranked[0];
    if (request.rank) {
      result.rank = static_cast<int32_t>(std::find(ranked.begin(), ranked.end(), result.id) - ranked.begin()) + 1;
    }
    const size_t count = std::min(static_cast<size_t>(request.logprobs), ranked.size());
    for (size_t i = 0; i < count; ++i) result.top.push_back({ranked[i], static_cast<float>(logprobs[ranked[i]])});
  }
  return result;
}

}  // namespace hydrant::reference
