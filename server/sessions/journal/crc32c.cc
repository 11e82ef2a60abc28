#include "server/sessions/journal/crc32c.h"

#include <array>
#include <cstddef>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace hydrant {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // Castagnoli's, bits reversed

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = MakeTable();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t Crc32cByInstruction(std::string_view bytes) {
  uint64_t crc = 0xffffffff;
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, at, 8);
    crc = _mm_crc32_u64(crc, word);
  }
  auto narrow = static_cast<uint32_t>(crc);
  for (; left > 0; --left, ++at) narrow = _mm_crc32_u8(narrow, static_cast<uint8_t>(*at));
  return ~narrow;
}
#endif

// The product of two polynomials over GF(2), modulo the checksum's. The highest bit is the coefficient of x^0.
uint32_t Product(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t coefficient = uint32_t{1} << 31; coefficient != 0; coefficient >>= 1) {
    if ((a & coefficient) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kPolynomial : 0);
  }
  return product;
}

}  // namespace

// A byte behind a text multiplies what was before it by x^8. What both checksums begin and end with cancels out.
uint32_t Crc32cOfBoth(uint32_t first, uint32_t second, uint64_t second_bytes) {
  uint32_t power = uint32_t{1} << 31;         // x^0
  uint32_t square = uint32_t{1} << (31 - 8);  // x^8
  for (; second_bytes > 0; second_bytes >>= 1) {
    if ((second_bytes & 1) != 0) power = Product(power, square);
    square = Product(square, square);
  }
  return Product(power, first) ^ second;
}

uint32_t Crc32cByTable(std::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const char byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  return ~crc;
}

uint32_t Crc32c(std::string_view bytes) {
#if defined(__x86_64__)
  static const bool kHasInstruction = __builtin_cpu_supports("sse4.2") != 0;
  if (kHasInstruction) return Crc32cByInstruction(bytes);
#endif
  return Crc32cByTable(bytes);
}

}  // namespace hydrant
