// Inner loops of products whose weights lie in panels as they are stored (quantised_layout.h), with activations in 16 bits:
// where there are byte products, two bytes, whose products with the codes are added up apart.
//
// Rows of x are worked on in tiles, and a tile in strips of a few rows. A panel is decoded for a tile a few blocks at a time, to
// a form that is the same for all formats: so products are compiled for four shapes of formats, not for each of them.
//
// Prepared x. A strip of R rows is a row of blocks of 32 inputs, each
//   int8 low [R][32], int8 high [R][32], or without byte products int16 q [R][32], every four of them in the order 0, 2, 1, 3
//   fp32 scale [R], fp32 sum [R], int32 minus [3][R]
// with x ~ scale * q, q = 256 * high + low, sum = scale * float(Σ q), and minus = -Σ q over the 32, the first 16 and the last 16:
// a code's offset times these is added to a sum of products of codes. kernels/reference/quantised_reference.h has the formulas,
// and the one order of roundings. All sums of codes are whole and exact, so bits differ between neither instruction sets
// nor heights of tiles.
#ifndef HYDRANT_KERNELS_CPU_LINEAR_QUANTISED_KERNELS_H_
#define HYDRANT_KERNELS_CPU_LINEAR_QUANTISED_KERNELS_H_

#include "kernels/cpu/linear/linear_kernels.h"

namespace hydrant {

// Bytes of a prepared row's block of 32 inputs.
inline constexpr int64_t kPreparedBlockBytes = 2 * 32 + 5 * 4;

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_LINEAR_QUANTISED_KERNELS_H_
