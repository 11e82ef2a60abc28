// QuantizeRow rounds a row of fp32 to a quantised format: what a checkpoint's weights may become when they are loaded.
//
// Thread: any (pure).
#ifndef HYDRANT_MODEL_FILES_QUANTIZE_H_
#define HYDRANT_MODEL_FILES_QUANTIZE_H_

#include <cstdint>

#include "kernels/types.h"

namespace hydrant {

// in [elements] -> out [RowBytes(format, elements)], which may be unaligned. Every element becomes the nearest code.
//   Q8_0  the step is the largest magnitude of 32 by 127
//   Q4_0  the number of the largest magnitude has the code -8; codes in [-8, 7]. The step is then fitted: with it, the sum of
//         squared errors is the least for these codes
// Returns false when a step is no finite fp16 number; products with such a block are NaN. REQUIRES: the format is Q8_0 or Q4_0;
// elements is a multiple of 32.
bool QuantizeRow(WeightFormat format, const float* in, int64_t elements, void* out);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_FILES_QUANTIZE_H_
