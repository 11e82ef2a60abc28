#include "tests/gpu/bench.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

namespace hydrant::cuda {

Bench::Bench(bool small) : small_(small) {
  for (cudaEvent_t* event : {&begin_, &end_}) {
    CheckCuda(cudaEventCreateWithFlags(event, cudaEventDefault), "cudaEventCreate");
  }
  CheckCuda(cublasSetStream(blas_, stream_), "cublasSetStream");
  CheckCuda(cublasSetWorkspace(blas_, workspace_.data(), workspace_.bytes()), "cublasSetWorkspace");
  cudaDeviceProp properties = {};
  CheckCuda(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  device_ = properties.name;
  multiprocessors_ = properties.multiProcessorCount;
  warpgroups_ = properties.major == 9 && properties.minor == 0;
  int clock_khz = 0, bus_bits = 0;
  CheckCuda(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrMemoryClockRate, 0), "cudaDeviceGetAttribute");
  CheckCuda(cudaDeviceGetAttribute(&bus_bits, cudaDevAttrGlobalMemoryBusWidth, 0), "cudaDeviceGetAttribute");
  memory_rate_ = 2.0 * clock_khz * 1e3 * bus_bits / 8;  // two transfers a clock
  MeasureCopy();
  MeasureProduct();
  std::printf("%s, %d multiprocessors; its memory should move %.0f GB/s\n", device_.c_str(), multiprocessors_,
              memory_rate_ * 1e-9);
  std::printf("limits: copy %.0f GB/s, read plus written; product of bf16 %.0f TFLOP/s\n\n", copy_rate_ * 1e-9,
              product_rate_ * 1e-12);
  std::printf("%-46s %10s %12s %9s\n", "kernel", "us", "rate", "of limit");
}

Bench::~Bench() {
  for (cudaEvent_t event : {begin_, end_}) static_cast<void>(cudaEventDestroy(event));
}

double Bench::Time(const std::function<void(int)>& launch, int repeats, int run, const std::function<void()>& prepare) {
  constexpr int kWarm = 2;
  std::vector<float> times;
  for (int repeat = small_ ? kWarm - 1 : 0; repeat < (small_ ? kWarm + 1 : kWarm + repeats); ++repeat) {
    prepare();
    CheckCuda(cudaEventRecord(begin_, stream_), "cudaEventRecord");
    for (int i = 0; i < (small_ ? 1 : run); ++i) launch(i);
    CheckCuda(cudaEventRecord(end_, stream_), "cudaEventRecord");
    CheckCuda(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float ms = 0;
    CheckCuda(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime");
    if (repeat >= kWarm) times.push_back(ms / static_cast<float>(small_ ? 1 : run));
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2] * 1e-3;
}

double Bench::TimeCaptured(const std::function<void(int)>& launch) {
  const int run = small_ ? 1 : 10;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t recorded = nullptr;
  // A kernel is loaded at its first launch, which a capture may not do.
  launch(0);
  CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  CheckCuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  for (int i = 0; i < run; ++i) launch(i);
  CheckCuda(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
  CheckCuda(cudaGraphInstantiate(&recorded, graph, 0), "cudaGraphInstantiate");
  const double seconds = Time([&](int) { CheckCuda(cudaGraphLaunch(recorded, stream_), "cudaGraphLaunch"); },
                              /*repeats=*/15, /*run=*/1);
  CheckCuda(cudaGraphExecDestroy(recorded), "cudaGraphExecDestroy");
  CheckCuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
  return seconds / run;
}

void Bench::Bytes(const std::string& name, double seconds, double bytes, bool correct) {
  Add({name, seconds, bytes, bytes / seconds / copy_rate_, false, correct});
}
void Bench::Operations(const std::string& name, double seconds, double operations, bool correct) {
  Add({name, seconds, operations, operations / seconds / product_rate_, true, correct});
}
void Bench::Bus(const std::string& name, double seconds, double bytes, double limit, bool correct) {
  Add({name, seconds, bytes, limit / seconds, false, correct});
}

void Bench::Add(const Line& line) {
  lines_.push_back(line);
  std::printf("%-46s %10.2f %8.1f %s %7.1f%%%s\n", line.name.c_str(), line.seconds * 1e6,
              line.amount / line.seconds * (line.counts_operations ? 1e-12 : 1e-9),
              line.counts_operations ? "TF " : "GB ", line.of_limit * 100, line.correct ? "" : "  WRONG");
  std::fflush(stdout);
}

std::unique_ptr<CudaBuffer> Bench::Upload(const void* data, size_t bytes) {
  auto buffer = std::make_unique<CudaBuffer>(bytes);
  CheckCuda(cudaMemcpyAsync(buffer->data(), data, bytes, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync");
  CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  return buffer;
}

void Bench::Poison(const CudaBuffer& buffer) {
  CheckCuda(cudaMemsetAsync(buffer.data(), 0xff, buffer.bytes(), stream_), "cudaMemsetAsync");
}

void Bench::LibraryProduct(const void* w, const void* x, int64_t n, int64_t rows, int64_t cols, float* y,
                           int64_t y_stride) {
  const float one = 1.0f, zero = 0.0f;
  CheckCuda(cublasGemmEx(blas_, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(rows), static_cast<int>(n),
                         static_cast<int>(cols), &one, w, CUDA_R_16BF, static_cast<int>(cols), x, CUDA_R_16BF,
                         static_cast<int>(cols), &zero, y, CUDA_R_32F, static_cast<int>(y_stride > 0 ? y_stride : rows),
                         CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            "cublasGemmEx");
}

bool Bench::correct() const {
  return std::all_of(lines_.begin(), lines_.end(), [](const Line& line) { return line.correct; });
}

void Bench::WriteJson(const char* path) const {
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) return;
  std::fprintf(file, "{\"device\": \"%s\", \"memory_gb_s\": %.1f, \"copy_gb_s\": %.1f, \"product_tflop_s\": %.1f, ",
               device_.c_str(), memory_rate_ * 1e-9, copy_rate_ * 1e-9, product_rate_ * 1e-12);
  std::fprintf(file, "\"kernels\": [");
  for (size_t i = 0; i < lines_.size(); ++i) {
    const Line& line = lines_[i];
    std::fprintf(file, "%s\n {\"name\": \"%s\", \"us\": %.3f, \"%s\": %.3f, \"of_limit\": %.4f, \"correct\": %s}",
                 i ? "," : "", line.name.c_str(), line.seconds * 1e6, line.counts_operations ? "tflop_s" : "gb_s",
                 line.amount / line.seconds * (line.counts_operations ? 1e-12 : 1e-9), line.of_limit,
                 line.correct ? "true" : "false");
  }
  std::fprintf(file, "]}\n");
  std::fclose(file);
}

void Bench::MeasureCopy() {
  const size_t bytes = small_ ? size_t{1} << 20 : size_t{1} << 30;
  const CudaBuffer from(bytes), to(bytes);
  CheckCuda(cudaMemsetAsync(from.data(), 0x5a, bytes, stream_), "cudaMemsetAsync");
  const double seconds = Time([&](int) {
    CheckCuda(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync");
  });
  copy_rate_ = 2.0 * static_cast<double>(bytes) / seconds;
}

// Long enough for the library to be at its best, of numbers that cost as much power as a model's.
void Bench::MeasureProduct() {
  const int64_t n = small_ ? 64 : 8192;
  const auto x = Upload(ToBf16(Normal(static_cast<size_t>(n * n), 3)));
  const auto w = Upload(ToBf16(Normal(static_cast<size_t>(n * n), 4, 0.02f)));
  const CudaBuffer y(static_cast<size_t>(n * n) * sizeof(float));
  const double seconds =
      Time([&](int) { LibraryProduct(w->data(), x->data(), n, n, n, static_cast<float*>(y.data())); });
  product_rate_ = 2.0 * static_cast<double>(n * n * n) / seconds;
}

std::vector<float> Normal(size_t count, uint64_t seed, float spread) {
  constexpr size_t kPeriod = 1048573;
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = i < kPeriod ? normal(random) : values[i - kPeriod];
  return values;
}

std::vector<__nv_bfloat16> ToBf16(const std::vector<float>& values) {
  std::vector<__nv_bfloat16> rounded(values.size());
  for (size_t i = 0; i < values.size(); ++i) rounded[i] = __float2bfloat16_rn(values[i]);
  return rounded;
}

reference::Values Doubles(const float* from, size_t count) { return {from, from + count}; }

reference::Values Doubles(const __nv_bfloat16* from, size_t count) {
  reference::Values values;
  for (size_t i = 0; i < count; ++i) values.push_back(static_cast<double>(__bfloat162float(from[i])));
  return values;
}

bool Near(const float* values, const reference::Values& expected, double tolerance) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!(std::abs(static_cast<double>(values[i]) - expected[i]) <= tolerance)) return false;
  }
  return true;
}

}  // namespace hydrant::cuda
