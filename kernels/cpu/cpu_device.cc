#include "kernels/cpu/cpu_device.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_linear.h"
#include "kernels/cpu/linear_kernels.h"
#include "kernels/cpu/row_kernels.h"

namespace hydrant {
namespace {

// An op of fewer elements than this runs on the calling thread: handing it out costs about as much (half a
// microsecond).
constexpr int64_t kParallelElements = 8192;

// Up to this many rows of x every thread prepares for itself: that costs less than a barrier.
constexpr int64_t kPrivateRows = 4;

float* Floats(const Matrix& matrix) {
  assert(matrix.dtype == DType::kF32);
  return static_cast<float*>(matrix.data);
}

// Rows per part, so that a part is worth a thread.
int64_t RowGrain(int64_t cols) { return std::max<int64_t>(1, kParallelElements / std::max<int64_t>(1, cols)); }

}  // namespace

absl::StatusOr<std::unique_ptr<CpuDevice>> CpuDevice::Create(const CpuDeviceOptions& options) {
  if (options.threads < 1)
    return absl::InvalidArgumentError(absl::StrCat("threads is ", options.threads, ", not >= 1"));
  absl::StatusOr<CpuIsa> isa = options.isa.has_value() ? *options.isa : ChooseIsa();
  if (!isa.ok()) return isa.status();
  if (!IsaSupported(*isa)) {
    return absl::FailedPreconditionError(absl::StrCat("this processor does not support ", IsaName(*isa)));
  }
  return std::unique_ptr<CpuDevice>(new CpuDevice(options.threads, GetKernelTable(*isa)));
}

CpuDevice::CpuDevice(int threads, const KernelTable& kernels) : kernels_(kernels), pool_(threads) {
  ReserveScratch(0, 0, 0, 0, 0, 0, 0);
}

CpuDevice::~CpuDevice() = default;

std::string CpuDevice::name() const {
  return absl::StrCat("cpu ", IsaName(kernels_.isa), ", ", pool_.threads(),
                      pool_.threads() == 1 ? " thread" : " threads");
}

bool CpuDevice::MultipliesNatively(DType dtype) const { return kernels_.linear->native(dtype); }

std::unique_ptr<DeviceBuffer> CpuDevice::Allocate(size_t bytes) { return std::make_unique<CpuBuffer>(bytes); }

void CpuDevice::CopyToDevice(void* dst, const void* src, size_t bytes) {
  if (bytes != 0) std::memcpy(dst, src, bytes);
}

void CpuDevice::CopyToHost(void* dst, const void* src, size_t bytes) {
  if (bytes != 0) std::memcpy(dst, src, bytes);
}

std::unique_ptr<LinearWeight> CpuDevice::MakeLinear(const LinearSpec& spec, const RowReader& reader,
                                                    std::span<const float> bias) {
  return std::make_unique<CpuLinear>(spec, reader, bias, *kernels_.linear, pool_);
}

void CpuDevice::ReserveScratch(int32_t tokens_max, int32_t rows_max, int32_t slots_max, int64_t cols_max,
                               int32_t query_heads, int32_t head_dim, int64_t vocab) {
  const int64_t rows = std::max<int64_t>(tokens_max, kPrivateRows * pool_.threads());
  prepared_x_ = std::make_unique<CpuBuffer>(kernels_.linear->prepared_bytes(rows, cols_max));
  ReserveAttentionScratch(tokens_max, rows_max, slots_max, query_heads, head_dim, vocab);
}

void CpuDevice::BeginStep(const StepBatch& batch) { batch_ = batch; }

void CpuDevice::Embed(const LinearWeight& table, Matrix x) {
  const auto& linear = static_cast<const CpuLinear&>(table);
  assert(x.rows == static_cast<int64_t>(batch_.token_ids.size()));
  assert(x.cols == linear.spec().cols);
  float* out = Floats(x);
  pool_.ParallelFor(x.rows, RowGrain(x.cols), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      linear.ReadRow(batch_.token_ids[static_cast<size_t>(row)], *kernels_.linear, out + row * x.cols);
    }
  });
}

void CpuDevice::Norm(const NormWeight& norm, Matrix x, Matrix y) {
  assert(x.rows == y.rows && x.cols == y.cols);
  const float* in = Floats(x);
  float* out = Floats(y);
  pool_.ParallelFor(x.rows, RowGrain(x.cols), [&](int64_t begin, int64_t end, int) {
    kernels_.row->norm(norm, in + begin * x.cols, x.cols, out + begin * x.cols, x.cols, end - begin, x.cols);
  });
}

void CpuDevice::Linear(const LinearWeight& weight, Matrix x, Matrix y, bool accumulate) {
  assert(!weight.spec().gated);
  Multiply(weight, accumulate ? Epilogue::kAccumulate : Epilogue::kStore, Activation::kSilu, x, y);
}

void CpuDevice::LinearActivated(const LinearWeight& weight, Activation activation, Matrix x, Matrix y) {
  assert(!weight.spec().gated);
  Multiply(weight, Epilogue::kActivate, activation, x, y);
}

void CpuDevice::LinearGated(const LinearWeight& weight, Activation activation, Matrix x, Matrix y) {
  assert(weight.spec().gated);
  Multiply(weight, Epilogue::kGate, activation, x, y);
}

void CpuDevice::Multiply(const LinearWeight& weight, Epilogue epilogue, Activation activation, Matrix x, Matrix y) {
  const auto& linear = static_cast<const CpuLinear&>(weight);
  const LinearKernels& kernels = *kernels_.linear;
  const DType dtype = linear.spec().dtype;
  assert(x.cols == linear.packed().inputs && y.cols == linear.packed().outputs && x.rows == y.rows);
  const float* in = Floats(x);
  auto* prepared = static_cast<char*>(prepared_x_->data());
  LinearCall call;
  call.weight = linear.packed();
  call.epilogue = epilogue;
  call.activation = activation;
  call.rows = x.rows;
  call.x = prepared;
  call.y = Floats(y);
  call.y_stride = y.cols;
  const int64_t tiles = kernels.tile_count(x.rows);
  const size_t bytes = kernels.prepared_bytes(x.rows, x.cols);

  if (x.rows <= kPrivateRows) {
    assert(bytes * static_cast<size_t>(pool_.threads()) <= prepared_x_->bytes());
    pool_.ParallelFor(linear.panels(), 1, [&](int64_t begin, int64_t end, int thread) {
      LinearCall own = call;
      own.x = prepared + bytes * static_cast<size_t>(thread);
      kernels.prepare(dtype, in, x.rows, x.cols, 0, tiles, const_cast<void*>(own.x));
      kernels.multiply(own, 0, tiles, begin, end);
    });
    return;
  }
  assert(bytes <= prepared_x_->bytes());
  pool_.Run([&](int thread) {
    const ThreadPool::Range own_tiles = pool_.Part(tiles, 1, thread);
    kernels.prepare(dtype, in, x.rows, x.cols, own_tiles.begin, own_tiles.end, prepared);
    pool_.Barrier();
    const ThreadPool::Range panels = pool_.Part(linear.panels(), 1, thread);
    kernels.multiply(call, 0, tiles, panels.begin, panels.end);
  });
}

void CpuDevice::GatherRows(Matrix x, std::span<const int32_t> indices, Matrix y) {
  assert(y.rows == static_cast<int64_t>(indices.size()) && x.cols == y.cols);
  const float* in = Floats(x);
  float* out = Floats(y);
  pool_.ParallelFor(y.rows, RowGrain(y.cols), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t from = indices[static_cast<size_t>(row)];
      assert(from >= 0 && from < x.rows);
      std::memcpy(out + row * y.cols, in + from * x.cols, static_cast<size_t>(y.cols) * sizeof(float));
    }
  });
}

}  // namespace hydrant
