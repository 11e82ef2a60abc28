// DequantizeRow expands a row of a model file's tensor to fp32.
//
// Thread: any.
#ifndef HYDRANT_MODEL_FILES_DEQUANTIZE_H_
#define HYDRANT_MODEL_FILES_DEQUANTIZE_H_

#include <cstdint>

#include "kernels/types.h"

namespace hydrant {

// out[0, elements) = the row at `stored`, which may be unaligned. REQUIRES: elements is a multiple of the format's
// block_elements. Returns false when a value is not finite.
bool DequantizeRow(WeightFormat format, const void* stored, int64_t elements, float* out);

// Whether the row at `stored` expands to finite values, from its scales and minima alone: without expanding it. REQUIRES: the format
// is quantised; elements is a multiple of its block_elements.
bool ScalesAreFinite(WeightFormat format, const void* stored, int64_t elements);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_FILES_DEQUANTIZE_H_
