// Bench times kernels against what the device can do, and keeps the lines of kernel_bench's table.
//
// The limits are measured first, on the device itself: a large copy gives the memory's GB/s (bytes read plus bytes written), a large
// product of the library the TFLOP/s. A share may be above one: of the memory where everything fits the L2 cache (such lines say
// so), of the product where it runs at a lower clock than a short kernel.
#ifndef HYDRANT_TESTS_GPU_BENCH_H_
#define HYDRANT_TESTS_GPU_BENCH_H_

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/reference/reference.h"

namespace hydrant::cuda {

struct Line {
  std::string name;
  double seconds, amount, of_limit;  // amount: bytes or operations
  bool counts_operations, correct;
};

class Bench {
 public:
  // `small`: of the shapes too; every launch is timed once, which says nothing, and checked as ever.
  explicit Bench(bool small);
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // Median over `repeats` of the time of one launch, of which `run` follow each other: the time that a launch takes on the host
  // is not the kernel's. `launch(i)` may take another operand each time. `prepare` runs before each of the repeats.
  double Time(
      const std::function<void(int)>& launch, int repeats = 15, int run = 10,
      const std::function<void()>& prepare = [] {});
  // Times a kernel that takes no longer than its launch does: ten launches are one graph, as they are in a step.
  double TimeCaptured(const std::function<void(int)>& launch);

  void Bytes(const std::string& name, double seconds, double bytes, bool correct);
  void Operations(const std::string& name, double seconds, double operations, bool correct);
  // `limit`: seconds that a plain copy takes.
  void Bus(const std::string& name, double seconds, double bytes, double limit, bool correct);

  std::unique_ptr<CudaBuffer> Upload(const void* data, size_t bytes);
  template <typename T>
  std::unique_ptr<CudaBuffer> Upload(const std::vector<T>& values) {
    return Upload(values.data(), values.size() * sizeof(T));
  }
  // So many copies that none is in the cache when its turn comes again.
  template <typename T>
  std::vector<std::unique_ptr<CudaBuffer>> UploadCopies(const std::vector<T>& values) {
    std::vector<std::unique_ptr<CudaBuffer>> copies;
    const size_t bytes = values.size() * sizeof(T), wanted = small_ ? bytes : size_t{256} << 20;
    for (size_t taken = 0; taken < wanted; taken += bytes) copies.push_back(Upload(values));
    return copies;
  }
  template <typename T>
  std::vector<T> Read(const void* data, size_t count) {
    std::vector<T> values(count);
    CheckCuda(cudaMemcpyAsync(values.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost, stream_),
              "cudaMemcpyAsync");
    CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    return values;
  }
  // Nothing that was there before passes for a result: every float becomes a NaN.
  void Poison(const CudaBuffer& buffer);

  bool small() const { return small_; }
  cudaStream_t stream() const { return stream_; }
  int32_t multiprocessors() const { return multiprocessors_; }
  bool warpgroups() const { return warpgroups_; }  // AttentionShape::warpgroups
  // y [n, rows] = x [n, cols] w [rows, cols]^T by the library, of bf16, as CudaDevice asks for it. Rows of y are `y_stride`
  // apart, or beside each other (0).
  void LibraryProduct(const void* w, const void* x, int64_t n, int64_t rows, int64_t cols, float* y,
                      int64_t y_stride = 0);

  // Whether every line so far is.
  bool correct() const;
  void WriteJson(const char* path) const;

 private:
  void MeasureCopy();
  void MeasureProduct();
  void Add(const Line& line);

  const bool small_;
  const Stream stream_;  // before the library: without a device its error says so, the library's does not
  BlasHandle blas_;
  const CudaBuffer workspace_{size_t{32} << 20};
  std::string device_;
  int multiprocessors_ = 0;
  bool warpgroups_ = false;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  double memory_rate_ = 0;   // by the device's clock and bus
  double copy_rate_ = 0;     // measured
  double product_rate_ = 0;  // measured
  std::vector<Line> lines_;
};

// Standard normal numbers times `spread`; a long row of them begins again after a prime number, so no two rows are alike.
std::vector<float> Normal(size_t count, uint64_t seed, float spread = 1.0f);
std::vector<__nv_bfloat16> ToBf16(const std::vector<float>& values);
reference::Values Doubles(const float* from, size_t count);
reference::Values Doubles(const __nv_bfloat16* from, size_t count);
// Whether each is there and at most so far from the oracle's.
bool Near(const float* values, const reference::Values& expected, double tolerance);

}  // namespace hydrant::cuda

#endif  // HYDRANT_TESTS_GPU_BENCH_H_
