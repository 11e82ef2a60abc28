// Runs CUDA kernels on the host, thread by thread, so that their logic is tested where there is no GPU.
//
// The kernels' own sources (kernels/cuda/*.cu) are compiled as C++ against the headers in tests/simt/include, which have the
// names of CUDA's. A block's threads are fibers of one system thread: each runs until it meets a barrier or a warp
// collective, blocks follow one another. What this shows: indexing, synchronisation that the order of threads must not
// matter to (every other block runs its threads backwards), barriers that some threads never reach (the program ends with a
// message), and, in an AddressSanitizer build, any access outside what was allocated. What it cannot show: races inside a
// warp, memory ordering, what nvcc makes of the code, speed.
//
// Thread: one per process.
#ifndef HYDRANT_TESTS_SIMT_MACHINE_H_
#define HYDRANT_TESTS_SIMT_MACHINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>

namespace hydrant::simt {

struct Index {
  uint32_t x = 0, y = 0, z = 0;
};

inline constexpr uint32_t kWarp = 32;
inline constexpr size_t kExchangeBytes = 64;  // per lane, in one collective

// Where the running thread is.
struct Place {
  Index thread, block, block_dim, grid_dim;
  uint32_t lane = 0;
};
extern Place place;

// Runs `kernel` once per thread of the grid and returns when all are done. Each block finds `shared_bytes` of 0xff in SharedMemory.
// `awaits`: ends the program unless every thread calls Await.
void RunGrid(Index grid, Index block, const std::function<void()>& kernel, size_t shared_bytes = 0,
             bool awaits = false);

// --- called by kernels
void SyncBlock();
enum class Collective : uint32_t {
  kSync,
  kShuffle,
  kShuffleXor,
  kShuffleUp,
  kBallot,
  kMin,
  kAdd,
  kMultiplyAdd,
  kLoadRows,
  kWarpgroup,
  kScan,
  kReduce,  // and as many more as lanes share a result
};
// What every lane of the warp put in, `bytes` each, one after the other. All lanes of the warp take part, in the same collective. Valid
// until the lane's second collective from here.
const std::byte* ExchangeInWarp(const void* value, size_t bytes, Collective which);
inline uint32_t Lane() { return place.lane; }
void Await();
std::byte* SharedMemory();

}  // namespace hydrant::simt

#endif  // HYDRANT_TESTS_SIMT_MACHINE_H_
