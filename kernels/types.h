// The types of numbers and of small operations that configurations, checkpoints and devices speak of.
//
// Thread: any (constants).
#ifndef HYDRANT_KERNELS_TYPES_H_
#define HYDRANT_KERNELS_TYPES_H_

#include <cstddef>
#include <cstdint>

namespace hydrant {

// The types of activations, of cached keys and values, and of weights that every device multiplies.
enum class DType : uint8_t { kF32, kF16, kBF16 };

constexpr size_t DTypeBytes(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

enum class Activation : uint8_t { kSilu, kGelu, kGeluTanh, kRelu };

enum class NormKind : uint8_t { kRms, kLayer };

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_TYPES_H_
