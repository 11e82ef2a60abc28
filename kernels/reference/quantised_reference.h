// The plain oracle of products with quantised weights and 16-bit activations: element by element from the stored bytes,
// nothing packed. A kernel has to give the same bits, on every instruction set.
//
// Thread: any (pure functions).
//
// An activation row is cut into blocks of 32: x ~ scale * q with scale = max |x| / 32512 and q = 256 * high + low in
// [-32512, 32512], rounded to the nearest, ties to even; high and low are bytes in [-127, 127], so a low byte of -128 becomes
// -127, which is off by one. A weight element is step * code + minimum with whole codes; step and minimum are those of a group of
// 32 elements (Q2_K, Q3_K, Q6_K: of 16). With the groups in ascending order, a product is one fp32 accumulator per output that
// begins at 0 and takes for every group, all in fp32,
//   sum = fma(float(Σ code * q), step * scale, sum), and
//   sum = fma(minimum, scale * float(Σ q), sum) if the format has minima.
// Whole sums are exact in any order; that leaves one order of roundings.
#ifndef HYDRANT_KERNELS_REFERENCE_QUANTISED_REFERENCE_H_
#define HYDRANT_KERNELS_REFERENCE_QUANTISED_REFERENCE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/types.h"

namespace hydrant::reference {

// A row of activations in blocks of 32.
struct QuantisedRow {
  std::vector<int32_t> q;    // [cols]
  std::vector<float> scale;  // [cols / 32]; 0: all of the block are too small to count; NaN: one is not finite
};

// REQUIRES: x.size() is a multiple of 32. A block with a number that is not finite has the scale NaN, so that all that depends
// on it is NaN; one without a number of at least 2^-100 counts as zeros, for 32512 / max could overflow.
QuantisedRow QuantiseRow(std::span<const float> x);

// An element of a stored row: x = step * code + minimum.
struct StoredElement {
  int code = 0;
  float step = 0;
  float minimum = 0;
};
// REQUIRES: the format is quantised.
StoredElement ElementOf(WeightFormat format, const std::byte* row, int64_t index);
// All of a row.
std::vector<StoredElement> ElementsOf(WeightFormat format, const std::byte* row, int64_t cols);

// The product of one stored row of a weight with one row of activations.
float QuantisedProduct(WeightFormat format, std::span<const StoredElement> row, const QuantisedRow& x);

}  // namespace hydrant::reference

#endif  // HYDRANT_KERNELS_REFERENCE_QUANTISED_REFERENCE_H_
