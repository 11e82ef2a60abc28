// Rows of MXFP4 out of codes and scales that lie apart, byte by byte.
#include "model/files/mxfp4_rows.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "kernels/types.h"

namespace hydrant {
namespace {

// Elements 0 and 1 of a block are in byte 0 there; here 0 and 16 are, after the scale.
TEST(Mxfp4Rows, PutElementsHalfABlockApartIntoAByte) {
  std::string codes(3 * 2 * kMxfp4BlockBytes, '\0'), scales = {1, 2, 3, 4, 5, 6};
  const auto at = [](int row, int block) { return static_cast<size_t>((row * 2 + block) * kMxfp4BlockBytes); };
  codes[at(1, 0)] = '\x21';       // of row 1, elements 0 and 1 are 1 and 2
  codes[at(1, 0) + 8] = '\x43';   // 16 and 17
  codes[at(1, 1) + 7] = '\x65';   // 32 + 14 and 15
  codes[at(1, 1) + 15] = '\x87';  // 32 + 30 and 31
  const Mxfp4Rows rows(2, codes, scales);
  std::vector<std::byte> row(34);
  rows.Read(1, 2, row.data());
  std::vector<uint8_t> expected(34);
  expected[0] = 3;
  expected[1] = 0x31;
  expected[2] = 0x42;
  expected[17] = 4;
  expected[32] = 0x75;
  expected[33] = 0x86;
  EXPECT_EQ(std::memcmp(row.data(), expected.data(), expected.size()), 0);
  std::vector<std::byte> all(3 * 34);
  rows.Read(0, 3, all.data());
  EXPECT_EQ(std::memcmp(all.data() + 34, expected.data(), expected.size()), 0);
  EXPECT_EQ(static_cast<int>(all[0]), 1);
  EXPECT_EQ(static_cast<int>(all[2 * 34 + 17]), 6);
}

}  // namespace
}  // namespace hydrant
