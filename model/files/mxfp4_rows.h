// Mxfp4Rows reads a matrix whose codes and scales lie in two tensors as rows of WeightFormat::kMXFP4.
//
// Thread: any (immutable). The views must outlive it.
#ifndef HYDRANT_MODEL_FILES_MXFP4_ROWS_H_
#define HYDRANT_MODEL_FILES_MXFP4_ROWS_H_

#include <cstdint>
#include <string_view>

#include "model/files/raw_tensor.h"

namespace hydrant {

// Codes of a block of 32 elements, two in a byte: elements 2 i (the low half) and 2 i + 1 in byte i.
inline constexpr int64_t kMxfp4BlockBytes = 16;

class Mxfp4Rows final : public RowSource {
 public:
  // `codes` [rows, blocks, kMxfp4BlockBytes], `scales` [rows, blocks]: exponents of two, plus 127, as E8M0 has them.
  Mxfp4Rows(int64_t blocks, std::string_view codes, std::string_view scales)
      : blocks_(blocks), codes_(codes), scales_(scales) {}

  void Read(int64_t begin, int64_t end, std::byte* out) const override;
  void ReadAhead() const override;
  void ReturnMemory() const override;

 private:
  int64_t blocks_;  // of a row
  std::string_view codes_, scales_;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_FILES_MXFP4_ROWS_H_
