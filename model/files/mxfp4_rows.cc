#include "model/files/mxfp4_rows.h"

#include <cassert>

#include "kernels/types.h"
#include "model/files/mapped_file.h"

namespace hydrant {

void Mxfp4Rows::Read(int64_t begin, int64_t end, std::byte* out) const {
  assert(begin >= 0 && static_cast<size_t>(end * blocks_) <= scales_.size());
  const char* codes = codes_.data() + begin * blocks_ * kMxfp4BlockBytes;
  const char* scales = scales_.data() + begin * blocks_;
  auto* to = reinterpret_cast<uint8_t*>(out);
  for (int64_t block = 0; block < (end - begin) * blocks_; ++block, codes += kMxfp4BlockBytes) {
    *to++ = static_cast<uint8_t>(scales[block]);
    // Elements i and i + 16 share byte i there.
    for (int i = 0; i < kMxfp4BlockBytes / 2; ++i) {
      const auto first = static_cast<uint8_t>(codes[i]), second = static_cast<uint8_t>(codes[i + 8]);
      *to++ = static_cast<uint8_t>((first & 15) | second << 4);
      *to++ = static_cast<uint8_t>(first >> 4 | (second & 0xF0));
    }
  }
}

void Mxfp4Rows::ReadAhead() const {
  hydrant::ReadAhead(codes_);
  hydrant::ReadAhead(scales_);
}

void Mxfp4Rows::ReturnMemory() const {
  hydrant::ReturnMemory(codes_);
  hydrant::ReturnMemory(scales_);
}

}  // namespace hydrant
