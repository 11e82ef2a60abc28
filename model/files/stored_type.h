// StoredType is how a tensor's elements lie in a model file, and how a row of them becomes fp32.
//
// Thread: any.
#ifndef HYDRANT_MODEL_FILES_STORED_TYPE_H_
#define HYDRANT_MODEL_FILES_STORED_TYPE_H_

#include <cstdint>
#include <string_view>

namespace hydrant {

// The quantised types are ggml's: 32 elements share fp16 `d` (and `m`); x = d * q (Q8_0, q in [-128, 127]),
// x = d * (q - 8) (Q4_0) or x = d * q + m (Q4_1), q in [0, 15] with element i in the low and i + 16 in the high half of byte i.
// The K types: 256 elements in 8 groups of 32 (Q6_K: 16 of 16), each with an integer scale s (and m) of its own beside fp16 d
// (and n); x = d * s * q - n * m, s, m in [0, 63], q in [0, 15] (Q4_K) or [0, 31] (Q5_K); x = d * s * (q - 32), s in
// [-128, 127], q in [0, 63] (Q6_K).
enum class StoredType : uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ4_1, kQ4_K, kQ5_K, kQ6_K };

struct StoredTypeInfo {
  std::string_view name;
  int64_t block_elements;  // a row is a whole number of blocks
  int64_t block_bytes;
};

const StoredTypeInfo& InfoOf(StoredType type);

constexpr bool IsQuantised(StoredType type) { return type >= StoredType::kQ8_0; }

// out[0, elements) = the row at `stored`, which may be unaligned. REQUIRES: elements is a multiple of block_elements.
// Returns false when a value is not finite.
bool DequantizeRow(StoredType type, const void* stored, int64_t elements, float* out);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_FILES_STORED_TYPE_H_
