// Randomness from the kernel: ids that cannot be guessed, seeds.
//
// Thread: any.
#ifndef HYDRANT_SERVER_PROCESS_RANDOM_ID_H_
#define HYDRANT_SERVER_PROCESS_RANDOM_ID_H_

#include <cstdint>
#include <string>

namespace hydrant {

// 128 bits as 32 hexadecimal digits.
std::string RandomId();
uint64_t RandomSeed();

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_RANDOM_ID_H_
