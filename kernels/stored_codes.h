// How a row in a quantised format stores codes and scales: 32 elements of it at a time, whatever a device makes of them. The
// formats are llama.cpp's (ggml/src/ggml-common.h); kernels/reference and model/files/dequantize.h say what the numbers stand for.
//
// Thread: any (pure). Always inlined: with a constant format nothing is asked of it.
#ifndef HYDRANT_KERNELS_STORED_CODES_H_
#define HYDRANT_KERNELS_STORED_CODES_H_

#include <bit>
#include <cassert>
#include <cstdint>
#include <cstring>

#include "kernels/types.h"

#define HYDRANT_STORED [[gnu::always_inline]] inline

namespace hydrant::stored_codes {

// Codes are moved four at a time, a byte each, as words of 32 bits.
static_assert(std::endian::native == std::endian::little, "the first byte of a word is its lowest one");

HYDRANT_STORED uint32_t LoadWord(const uint8_t* at) {
  uint32_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

inline constexpr uint32_t kLowFour = 0x0f0f0f0f, kLowTwo = 0x03030303, kLowOne = 0x01010101;

// Bit i of `bits`, of four, into the lowest bit of byte i: the products move it there and meet nowhere.
constexpr uint32_t BitsToBytes(uint32_t bits) { return bits * 0x00204081 & kLowOne; }

// The 32 codes of a block of one row, offset not taken off: those of inputs 4j to 4j + 3 in word j.
struct BlockCodes {
  uint32_t words[8];
};

// Four bits of elements i and 16 + i in the halves of byte i.
HYDRANT_STORED void ReadHalves(const uint8_t* q, BlockCodes& codes) {
  for (int j = 0; j < 4; ++j) {
    const uint32_t both = LoadWord(q + 4 * j);
    codes.words[j] = both & kLowFour;
    codes.words[4 + j] = both >> 4 & kLowFour;
  }
}

// Element i's fifth bit is bit i of four bytes.
HYDRANT_STORED void AddFifthInRow(const uint8_t* at, BlockCodes& codes) {
  const uint32_t bits = LoadWord(at);
  for (int j = 0; j < 8; ++j) codes.words[j] |= BitsToBytes(bits >> 4 * j & 15) << 4;
}

// Two blocks share 32 bytes: the low halves, then the high ones.
HYDRANT_STORED void ReadShared(const uint8_t* q, int shift, BlockCodes& codes) {
  for (int j = 0; j < 8; ++j) codes.words[j] = LoadWord(q + 4 * j) >> shift & kLowFour;
}

// Two bits of four blocks share 32 bytes: into bits `to` and up.
HYDRANT_STORED void AddQuarters(const uint8_t* q, int shift, int to, BlockCodes& codes) {
  for (int j = 0; j < 8; ++j) codes.words[j] |= (LoadWord(q + 4 * j) >> shift & kLowTwo) << to;
}

// Another bit of a block's element i is bit `block` of byte i: into bit `to`.
HYDRANT_STORED void AddBitOfBlock(const uint8_t* bits, int block, int to, BlockCodes& codes) {
  for (int j = 0; j < 8; ++j) codes.words[j] |= (LoadWord(bits + 4 * j) >> block & kLowOne) << to;
}

// Block `block` of the stored step at `stored`.
HYDRANT_STORED BlockCodes ReadCodes(WeightFormat format, const uint8_t* stored, int block) {
  BlockCodes codes = {};
  const uint8_t* quarter = stored + block / 4 * 32;
  const int in_quarter = block % 4 * 2;
  switch (format) {
    case WeightFormat::kQ8_0:
      // Signed in the file: adding 128 flips the highest bit.
      for (int j = 0; j < 8; ++j) codes.words[j] = LoadWord(stored + 2 + 4 * j) ^ 0x80808080;
      break;
    case WeightFormat::kQ4_0:
    case WeightFormat::kIQ4_NL:
      ReadHalves(stored + 2, codes);
      break;
    case WeightFormat::kIQ4_XS:
      ReadHalves(stored + 8 + block * 16, codes);
      break;
    case WeightFormat::kMXFP4:
      ReadHalves(stored + 1, codes);
      break;
    case WeightFormat::kQ4_1:
      ReadHalves(stored + 4, codes);
      break;
    case WeightFormat::kQ5_0:
      ReadHalves(stored + 6, codes);
      AddFifthInRow(stored + 2, codes);
      break;
    case WeightFormat::kQ5_1:
      ReadHalves(stored + 8, codes);
      AddFifthInRow(stored + 4, codes);
      break;
    case WeightFormat::kQ2_K:
      AddQuarters(quarter + 16, in_quarter, 0, codes);
      break;
    case WeightFormat::kQ3_K:
      AddQuarters(quarter + 32, in_quarter, 0, codes);
      AddBitOfBlock(stored, block, 2, codes);
      break;
    case WeightFormat::kQ4_K:
      ReadShared(stored + 16 + block / 2 * 32, block % 2 * 4, codes);
      break;
    case WeightFormat::kQ5_K:
      ReadShared(stored + 48 + block / 2 * 32, block % 2 * 4, codes);
      AddBitOfBlock(stored + 16, block, 4, codes);
      break;
    case WeightFormat::kQ6_K:
      ReadShared(stored + block / 4 * 64 + block % 2 * 32, block % 4 / 2 * 4, codes);
      AddQuarters(quarter + 128, in_quarter, 4, codes);
      break;
    default:
      assert(false);
  }
  return codes;
}

// Scale and minimum of block `block` of a Q4_K or Q5_K: 6 bits each in 12 bytes, those of the first four blocks in the low
// bits of bytes of their own, the others in halves of the last four bytes and in the two bits that the first eight have left.
HYDRANT_STORED void ReadSixBitScales(const uint8_t* packed, int block, uint8_t* scale, uint8_t* minimum) {
  if (block < 4) {
    *scale = packed[block] & 63;
    *minimum = packed[block + 4] & 63;
    return;
  }
  *scale = static_cast<uint8_t>((packed[block + 4] & 15) | packed[block - 4] >> 6 << 4);
  *minimum = static_cast<uint8_t>(packed[block + 4] >> 4 | packed[block] >> 6 << 4);
}

// Where fp16 d and n of 256 elements lie in a stored block.
struct HeaderPlaces {
  int d, n;
};
constexpr HeaderPlaces PlacesOf(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ2_K:
      return {80, 82};
    case WeightFormat::kQ3_K:
      return {108, 0};
    case WeightFormat::kQ6_K:
      return {208, 0};
    default:
      return {0, 2};
  }
}

}  // namespace hydrant::stored_codes

#undef HYDRANT_STORED

#endif  // HYDRANT_KERNELS_STORED_CODES_H_
