#include "model/weights/key_balance.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace hydrant {
namespace {

constexpr float kExponentMax = 8;  // of a factor: more than any model at hand wants
constexpr double kDeviations = 3;  // of normal numbers, one in 370 is beyond

// Factors of one head.
void BalanceHead(std::span<const float> sizes, int32_t rope_dims, std::span<float> factors) {
  std::vector<float> largest(sizes.begin(), sizes.end());
  const auto half = static_cast<size_t>(rope_dims / 2);
  for (size_t i = 0; i < half; ++i) largest[i] = largest[i + half] = std::max(largest[i], largest[i + half]);
  double sum = 0;
  int64_t count = 0;
  for (const float size : largest) {
    if (!std::isfinite(size)) return;
    if (size == 0) continue;
    sum += std::log2(size);
    ++count;
  }
  if (count == 0) return;
  const auto mean = static_cast<float>(sum / static_cast<double>(count));
  for (size_t i = 0; i < largest.size(); ++i) {
    if (largest[i] == 0) continue;
    factors[i] = std::exp2(std::clamp(std::log2(largest[i]) - mean, -kExponentMax, kExponentMax));
  }
}

}  // namespace

std::vector<float> KeySizes(const KeyProduct& product) {
  const auto cols = static_cast<size_t>(product.cols);
  assert(cols > 0 && product.rows.size() % cols == 0);
  const size_t outputs = product.rows.size() / cols;
  std::vector<float> sizes(outputs);
  std::vector<double> squares(outputs);
  for (size_t i = 0; i < outputs; ++i) {
    const float* row = product.rows.data() + i * cols;
    double square = 0, constant = product.bias.empty() ? 0 : product.bias[i];
    for (size_t j = 0; j < cols; ++j) {
      const double scaled = product.norm_weight.empty() ? row[j] : double{row[j]} * product.norm_weight[j];
      square += scaled * scaled;
      if (!product.norm_bias.empty()) constant += double{row[j]} * product.norm_bias[j];
    }
    sizes[i] = static_cast<float>(std::abs(constant) + kDeviations * std::sqrt(square));
    squares[i] = square + constant * constant;
  }
  const size_t normed = product.head_norm.size();  // outputs that are normalised together
  for (size_t i = 0; normed > 0 && i < outputs; i += normed) {
    double sum = 0;
    for (size_t j = 0; j < normed; ++j) sum += squares[i + j];
    const double mean = std::sqrt(sum / static_cast<double>(normed));
    for (size_t j = 0; j < normed; ++j) {
      sizes[i + j] = static_cast<float>(sizes[i + j] / mean * std::abs(product.head_norm[j]));
    }
  }
  return sizes;
}

std::vector<float> KeyBalance(std::span<const float> sizes, int32_t head_dim, int32_t rope_dims) {
  const auto dims = static_cast<size_t>(head_dim);
  assert(head_dim > 0 && sizes.size() % dims == 0 && rope_dims % 2 == 0 && rope_dims <= head_dim);
  std::vector<float> factors(sizes.size(), 1.0f);
  for (size_t head = 0; head < sizes.size(); head += dims) {
    BalanceHead(sizes.subspan(head, dims), rope_dims, std::span(factors).subspan(head, dims));
  }
  return factors;
}

}  // namespace hydrant
