// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a counter-based generator, so
// that a draw is a pure function of (seed, position) and never of the batch or of what was drawn before.
//
// Thread: any; pure functions.
#ifndef HYDRANT_KERNELS_PHILOX_H_
#define HYDRANT_KERNELS_PHILOX_H_

#include <array>
#include <cstdint>

namespace hydrant {

// One block of four words for a 128-bit counter and a 64-bit key.
constexpr std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;  // the published round constants
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;              // golden ratio, sqrt(3) - 1
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

// Uniform in [0, 1) with 53 bits, for the token sampled at `position`.
constexpr double PhiloxUniform(uint64_t seed, int64_t position) {
  const auto counter = static_cast<uint64_t>(position);
  const auto word = Philox4x32({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0},
                               {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return static_cast<double>(((static_cast<uint64_t>(word[0]) << 32) | word[1]) >> 11) * 0x1p-53;
}

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_PHILOX_H_
