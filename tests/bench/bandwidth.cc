#include "tests/bench/bandwidth.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/runtime/cpu_buffer.h"
#include "kernels/cpu/runtime/cpu_features.h"
#include "kernels/cpu/runtime/thread_pool.h"

namespace hydrant {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Keeps the compiler from dropping what is computed.
volatile float sink;

__attribute__((target("avx2"))) void ReadAll(const char* data, int64_t bytes) {
  // Four streams of 4 KiB in flight: one alone leaves the memory idle at the borders of the prefetcher's 4 KiB regions.
  __m256i sum[4] = {};
  for (int64_t offset = 0; offset < bytes; offset += 4 * 4096) {
    for (int64_t i = 0; i < 4096; i += 64) {
      for (int stream = 0; stream < 4; ++stream) {
        const char* line = data + offset + stream * 4096 + i;
        sum[stream] = _mm256_xor_si256(sum[stream], _mm256_load_si256(reinterpret_cast<const __m256i*>(line)));
        sum[stream] = _mm256_xor_si256(sum[stream], _mm256_load_si256(reinterpret_cast<const __m256i*>(line + 32)));
      }
    }
  }
  const __m256i all = _mm256_xor_si256(_mm256_xor_si256(sum[0], sum[1]), _mm256_xor_si256(sum[2], sum[3]));
  sink = static_cast<float>(_mm256_extract_epi32(all, 0));
}

// Sixteen independent sums hide the latency of any x86 so far.
constexpr int kSums = 16;
// Sums for 256 bits: there are 16 registers.
constexpr int kNarrowSums = 12;
constexpr int kByteSums = 8;
constexpr int64_t kRounds = 1 << 17;

__attribute__((target("avx512f"))) void SpinF32Wide() {
  __m512 sum[kSums];
  for (auto& s : sum) s = _mm512_setzero_ps();
  __m512 a = _mm512_set1_ps(1e-3f);
  for (int64_t round = 0; round < kRounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) sum[i] = _mm512_fmadd_ps(a, a, sum[i]);
    asm volatile("" : "+v"(a));
  }
  for (int i = 1; i < kSums; ++i) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  sink = _mm512_cvtss_f32(sum[0]);
}

__attribute__((target("avx2,fma"))) void SpinF32() {
  __m256 sum[kNarrowSums];
  for (auto& s : sum) s = _mm256_setzero_ps();
  __m256 a = _mm256_set1_ps(1e-3f);
  for (int64_t round = 0; round < kRounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kNarrowSums; ++i) sum[i] = _mm256_fmadd_ps(a, a, sum[i]);
    asm volatile("" : "+x"(a));
  }
  for (int i = 1; i < kNarrowSums; ++i) sum[0] = _mm256_add_ps(sum[0], sum[i]);
  sink = _mm256_cvtss_f32(sum[0]);
}

__attribute__((target("avx512f,avx512bf16"))) void SpinBf16() {
  __m512 sum[kSums];
  for (auto& s : sum) s = _mm512_setzero_ps();
  __m512i a = _mm512_set1_epi32(0x3a803a80);
  for (int64_t round = 0; round < kRounds; ++round) {
    const auto pairs = reinterpret_cast<__m512bh>(a);
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) sum[i] = _mm512_dpbf16_ps(sum[i], pairs, pairs);
    asm volatile("" : "+v"(a));
  }
  for (int i = 1; i < kSums; ++i) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  sink = _mm512_cvtss_f32(sum[0]);
}

__attribute__((target("avx512f,avx512vnni"))) void SpinBytesWide() {
  __m512i sum[kSums];
  for (auto& s : sum) s = _mm512_setzero_si512();
  __m512i a = _mm512_set1_epi8(3);
  for (int64_t round = 0; round < kRounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) sum[i] = _mm512_dpbusd_epi32(sum[i], a, a);
    asm volatile("" : "+v"(a));
  }
  for (int i = 1; i < kSums; ++i) sum[0] = _mm512_add_epi32(sum[0], sum[i]);
  sink = _mm512_cvtss_f32(_mm512_castsi512_ps(sum[0]));
}

// Without byte products that add up, a pair of instructions: products in 16 bits, and their sum.
__attribute__((target("avx2"))) void SpinBytes() {
  __m256i sum[kByteSums];
  for (auto& s : sum) s = _mm256_setzero_si256();
  __m256i a = _mm256_set1_epi8(1);
  for (int64_t round = 0; round < kRounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kByteSums; ++i) {
      asm volatile("" : "+x"(a));  // or the compiler multiplies once for all sums, and keeps them in memory
      sum[i] = _mm256_add_epi16(sum[i], _mm256_maddubs_epi16(a, a));
    }
  }
  for (int i = 1; i < kByteSums; ++i) sum[0] = _mm256_add_epi16(sum[0], sum[i]);
  sink = static_cast<float>(_mm_cvtsi128_si32(_mm256_castsi256_si128(sum[0])));
}

double BestRate(int threads, double operations_per_thread, void (*function)()) {
  ThreadPool pool(threads);
  double best = 0.0;
  for (int pass = 0; pass < 20; ++pass) {
    const auto start = Clock::now();
    pool.Run([&](int) { function(); });
    best = std::max(best, operations_per_thread * threads / SecondsSince(start));
  }
  return best;
}

}  // namespace

double MeasureReadBandwidth(int threads) {
  constexpr int kPasses = 8;
  constexpr int64_t kBytes = int64_t{512} << 20;
  ThreadPool pool(threads);
  CpuBuffer buffer(static_cast<size_t>(kBytes));
  auto* data = static_cast<char*>(buffer.data());
  std::memset(data, 1, static_cast<size_t>(kBytes));
  double best = 0.0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = Clock::now();
    pool.ParallelFor(kBytes, 4 * 4096, [&](int64_t begin, int64_t end, int) { ReadAll(data + begin, end - begin); });
    best = std::max(best, static_cast<double>(kBytes) / SecondsSince(start));
  }
  return best;
}

double MeasurePeakF32(int threads) {
  if (IsaSupported(CpuIsa::kAvx512)) return BestRate(threads, 2.0 * 16 * kSums * kRounds, SpinF32Wide);
  return BestRate(threads, 2.0 * 8 * kNarrowSums * kRounds, SpinF32);
}

double MeasurePeakBf16(int threads) {
  return IsaSupported(CpuIsa::kAvx512Bf16) ? BestRate(threads, 4.0 * 16 * kSums * kRounds, SpinBf16) : 0.0;
}

double MeasurePeakInt8(CpuIsa isa, int threads) {
  if (isa >= CpuIsa::kAvx512Vnni) return BestRate(threads, 8.0 * 16 * kSums * kRounds, SpinBytesWide);
  return BestRate(threads, 2.0 * 32 * kByteSums * kRounds, SpinBytes);
}

}  // namespace hydrant
