// BenchCache is a cache of random tokens on the device, with the same on the host.
#ifndef HYDRANT_TESTS_GPU_BENCH_CACHE_H_
#define HYDRANT_TESTS_GPU_BENCH_CACHE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/kv_cache_view.h"
#include "tests/gpu/bench.h"

namespace hydrant::cuda {

// The shape of an 8B Llama. Some lines have heads of 64.
inline constexpr int32_t kHeads = 32, kKvHeads = 8, kDim = 128;

struct BenchCache {
  // `sequences` of `slots` tokens, whose positions are their slots'. The sequences are copies of one another. Of KvType::kInt8 codes
  // of 2^-5; else kBF16.
  BenchCache(Bench& bench, int32_t sequences, int32_t slots, int32_t layers = 1, int32_t head_dim = kDim,
             KvType type = KvType::kBF16);

  // Keys or values of slots [0, count) of sequence 0, layer 0 and KV head 0, from the host.
  reference::Values HeadZero(const std::vector<__nv_bfloat16>& from, int32_t count) const;
  // Elements from the start of the scores or positions to a slot of a sequence.
  size_t ScoreAt(int32_t sequence, int32_t layer, int32_t kv_head, int32_t slot) const;
  // Puts all scores and positions back.
  void RestoreScores(Bench& bench);

  const int32_t each;  // blocks of a sequence
  KvCacheLayout layout;
  std::vector<__nv_bfloat16> host_k, host_v;  // of sequence 0
  std::vector<int32_t> positions;
  std::vector<float> scores;
  std::unique_ptr<CudaBuffer> k, v, score, position, victim;
  KvCacheView view;
  std::vector<std::vector<int32_t>> tables;
};

}  // namespace hydrant::cuda

#endif  // HYDRANT_TESTS_GPU_BENCH_CACHE_H_
