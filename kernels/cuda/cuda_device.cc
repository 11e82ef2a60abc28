#include "kernels/cuda/cuda_device.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <new>
#include <optional>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/attention/cuda_rope_table.h"
#include "kernels/cuda/eviction/eviction.h"
#include "kernels/cuda/linear/cuda_adapter_weight.h"
#include "kernels/cuda/linear/experts.h"
#include "kernels/cuda/linear/packed_layout.h"
#include "kernels/cuda/linear/packed_product.h"
#include "kernels/cuda/linear/row_kernels.h"
#include "kernels/cuda/linear/unpack.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/sampling/sampling.h"

namespace hydrant {

using cuda::CudaAdapterWeight;
using cuda::CudaBuffer;
using cuda::CudaExperts;
using cuda::CudaLinear;
using cuda::CudaRopeTable;
using cuda::WeightView;

namespace {

// What cuBLAS asks for on the newest chips; given once, so that a product allocates nothing.
constexpr size_t kBlasWorkspaceBytes = size_t{32} << 20;

// Rows of one library product: bounds the memory of its rounded input and of a gated product's output.
constexpr int64_t kProductRows = 2048;

// Decode attention's partial outputs and logits: rows that do not fit together are worked on in groups.
constexpr int64_t kDecodeScratchFloats = int64_t{64} << 20;

constexpr int64_t kCutScratchBytes = int64_t{64} << 20;

constexpr int64_t kFloatBytes = sizeof(float);

// Packets for ops with small arrays: a step of generated tokens has one for each 64 of them, to gather the rows of the logits,
// and perhaps a cut; of 1,024 tokens two such steps have fewer. More, or larger ones, only wait.
constexpr size_t kPackets = 40, kPacketBytes = 4096;

// Pinned memory, twice, through which a session's blocks move. Large enough that launching a piece costs nothing beside it.
constexpr size_t kStagingBytes = size_t{8} << 20;

const float* In(const Matrix& matrix) {
  assert(matrix.dtype == DType::kF32);
  return static_cast<const float*>(matrix.data);
}
float* Out(const Matrix& matrix) { return const_cast<float*>(In(matrix)); }

// From row `begin` on, where the type may be a product's.
std::byte* RowsFrom(const Matrix& matrix, int64_t begin) {
  return static_cast<std::byte*>(matrix.data) + static_cast<size_t>(begin * matrix.cols) * DTypeBytes(matrix.dtype);
}

cuda::TableView TableOf(const LinearWeight* weight) {
  return weight != nullptr ? cuda::TableOf(static_cast<const CudaLinear&>(*weight)) : cuda::TableView();
}

cudaDataType BlasType(DType dtype) {
  return dtype == DType::kF32 ? CUDA_R_32F : dtype == DType::kF16 ? CUDA_R_16F : CUDA_R_16BF;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Create(const CudaDeviceOptions& options) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    return absl::FailedPreconditionError(absl::StrCat("there is no CUDA device", error != cudaSuccess ? ": " : "",
                                                      error != cudaSuccess ? cudaGetErrorString(error) : ""));
  }
  cudaDeviceProp properties = {};
  try {
    CheckCuda(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
    if (properties.major < 8) {
      return absl::FailedPreconditionError(absl::StrCat(properties.name, " has compute capability ", properties.major,
                                                        ".", properties.minor, "; 8.0 or later is needed"));
    }
    return std::unique_ptr<CudaDevice>(new CudaDevice(options, properties));
  } catch (const CudaError& failure) {
    return absl::FailedPreconditionError(absl::StrCat(properties.name, " can not be used: ", failure.what()));
  } catch (const std::bad_alloc&) {
    return absl::FailedPreconditionError(absl::StrCat(properties.name, " can not be used: its memory is taken"));
  }
}

CudaDevice::CudaDevice(const CudaDeviceOptions& options, const cudaDeviceProp& properties)
    : host_visible_(options.host_visible), graphs_wanted_(options.graphs), properties_(properties) {
  blas_workspace_ = std::make_unique<CudaBuffer>(kBlasWorkspaceBytes);
  CheckCuda(cublasSetStream(blas_, stream_), "cublasSetStream");
  // After the stream: setting that takes the library's own workspace back.
  CheckCuda(cublasSetWorkspace(blas_, blas_workspace_->data(), blas_workspace_->bytes()), "cublasSetWorkspace");
  uploads_ = std::make_unique<cuda::Uploads>(stream_, kPacketBytes, kPackets);
  staging_ = std::make_unique<cuda::KvStaging>(stream_, kStagingBytes);
}

CudaDevice::~CudaDevice() {
  // Queued work may use the memory that is freed now. A destructor cannot report an error.
  static_cast<void>(cudaStreamSynchronize(stream_));
}

std::string CudaDevice::name() const {
  return absl::StrCat("cuda ", properties_.name, ", ", properties_.multiProcessorCount, " multiprocessors");
}

bool CudaDevice::Supports(WeightFormat format) const {
  return !IsQuantised(format) || cuda::PackedLayoutOf(format).code_bits > 0;
}

// Kernels read rows of 16 bits in pieces of 16 bytes. Rows of a quantised weight are whole blocks of 32.
DType CudaDevice::PreferredInputType(const LinearSpec& spec) const {
  if (!spec.parts.empty() || IsQuantised(spec.format)) return DType::kBF16;
  return spec.cols % 8 == 0 ? DTypeOf(spec.format) : DType::kF32;
}

size_t CudaDevice::free_bytes() const {
  size_t free = 0, total = 0;
  CheckCuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

void CudaDevice::Synchronize() { CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

void CudaDevice::Done() {
  if (host_visible_ && !in_layers_) Synchronize();
}

std::unique_ptr<DeviceBuffer> CudaDevice::Allocate(size_t bytes) {
  auto buffer = std::make_unique<CudaBuffer>(bytes, host_visible_);
  CheckCuda(cudaMemsetAsync(buffer->data(), 0, bytes, stream_), "cudaMemsetAsync");
  Done();
  return buffer;
}

void CudaDevice::CopyToDevice(void* dst, const void* src, size_t bytes) {
  CopyAndWait(dst, src, bytes, stream_);  // the source is the caller's
}

void CudaDevice::CopyToHost(void* dst, const void* src, size_t bytes) { CopyAndWait(dst, src, bytes, stream_); }

std::unique_ptr<LinearWeight> CudaDevice::MakeLinear(const LinearSpec& spec, const WeightRows& rows,
                                                     std::span<const float> bias) {
  return std::make_unique<CudaLinear>(spec, rows, bias, host_visible_, stream_);
}

int64_t CudaDevice::LinearBytes(const LinearSpec& spec, bool biased) const { return CudaLinear::Bytes(spec, biased); }

std::unique_ptr<Experts> CudaDevice::MakeExperts(Experts::Matrices up, Experts::Matrices down) {
  return std::make_unique<CudaExperts>(std::move(up), std::move(down), host_visible_, stream_);
}

std::unique_ptr<RopeTable> CudaDevice::MakeRope(const RopeSpec& spec) {
  return std::make_unique<CudaRopeTable>(spec, host_visible_, stream_);
}

std::unique_ptr<AdapterWeight> CudaDevice::MakeAdapterWeight(const LinearSpec& weight, const AdapterSpec& spec) {
  return std::make_unique<CudaAdapterWeight>(weight, spec, host_visible_, adapter_uploads_);
}

int64_t CudaDevice::AdapterBytes(const LinearSpec& weight, const AdapterSpec& spec) const {
  return CudaAdapterWeight::Bytes(weight, spec);
}

void CudaDevice::SetAdapter(AdapterWeight& weight, int32_t slot, std::span<const AdapterFactors> parts) {
  static_cast<CudaAdapterWeight&>(weight).Set(slot, parts);
}

CudaDevice::Scratch CudaDevice::ScratchOf(const StepBounds& bounds) const {
  Scratch scratch;
  const int64_t product_rows = std::min<int64_t>(bounds.tokens_max, kProductRows);
  scratch.rounded_x = product_rows * (bounds.cols_max + 8) * 2;  // a row ends at a multiple of 16 bytes
  scratch.chosen_experts =
      int64_t{bounds.tokens_max} * bounds.experts_per_row * static_cast<int64_t>(sizeof(cuda::ExpertShare));
  scratch.gate = product_rows * 2 * bounds.cols_max * kFloatBytes;
  scratch.adapters = product_rows * kAdapterPartsMax * bounds.adapter_rank_max * kFloatBytes;
  const int32_t slots = WholeBlocks(bounds.slots_max);
  const int64_t row_floats = cuda::StepTable::RowFloats(slots, bounds.query_heads, bounds.head_dim);
  scratch.decode_floats =
      std::max(row_floats, std::min(row_floats * std::max(bounds.rows_max, 1), kDecodeScratchFloats));
  scratch.shared =
      std::max(scratch.decode_floats * kFloatBytes, cuda::UnpackBytes(product_rows, bounds.quantised_cols_max));
  scratch.prompt_sums = int64_t{bounds.tokens_max} * bounds.query_heads * kFloatBytes;
  const auto cut_bytes = static_cast<int64_t>(cuda::CutScratchBytes(slots));
  const int64_t fitting = kCutScratchBytes / std::max<int64_t>(cut_bytes, 1);
  scratch.cut_blocks = static_cast<int32_t>(std::clamp<int64_t>(fitting, 4, 2 * properties_.multiProcessorCount));
  scratch.cuts = scratch.cut_blocks * cut_bytes;
  scratch.samples = cuda::SampleQueue::Bytes(bounds);
  scratch.table = cuda::StepTable::PacketBytes(bounds);
  return scratch;
}

int64_t CudaDevice::ScratchBytes(const StepBounds& bounds) const {
  const Scratch scratch = ScratchOf(bounds);
  return scratch.rounded_x + scratch.gate + scratch.adapters + scratch.chosen_experts + scratch.shared +
         scratch.prompt_sums + scratch.cuts + scratch.samples + scratch.table;
}

void CudaDevice::ReserveScratch(const StepBounds& bounds) {
  const auto buffer = [](int64_t bytes) { return std::make_unique<CudaBuffer>(static_cast<size_t>(bytes)); };
  const Scratch scratch = ScratchOf(bounds);
  // Recorded steps refer to the memory that is freed now.
  Synchronize();
  graphs_.Clear();
  slots_max_ = WholeBlocks(bounds.slots_max);
  query_heads_ = bounds.query_heads;
  rounded_x_ = buffer(scratch.rounded_x);
  gate_ = buffer(scratch.gate);
  adapter_inner_ = scratch.adapters > 0 ? buffer(scratch.adapters) : nullptr;
  // No bytes would take some, too.
  chosen_experts_ = scratch.chosen_experts > 0 ? buffer(scratch.chosen_experts) : nullptr;
  shared_ = buffer(scratch.shared);
  prompt_sums_ = buffer(scratch.prompt_sums);
  cut_blocks_ = scratch.cut_blocks;
  cuts_ = buffer(scratch.cuts);
  samples_ = std::make_unique<cuda::SampleQueue>(stream_, bounds);
  step_ = std::make_unique<cuda::StepTable>(stream_, bounds, scratch.decode_floats, samples_->sampled_ids());
}

int64_t CudaDevice::BeginStep(const StepBatch& batch) {
  step_->Fill(batch);
  return step_->tokens();
}

void CudaDevice::RunLayers(const void* program, const std::function<void()>& ops) {
  const std::optional<cuda::StepShape> shape = step_->shape();
  if (!graphs_wanted_ || !shape.has_value()) return ops();
  graphs_.Run(stream_, {program, *shape}, [&] {
    const absl::Cleanup done = [this] { in_layers_ = false; };
    in_layers_ = true;
    ops();
  });
  Done();
}

void CudaDevice::Embed(const LinearWeight* tokens, float scale, const LinearWeight* positions, Matrix x) {
  assert(tokens != nullptr || positions != nullptr);
  cuda::LaunchEmbed(stream_, step_->view(), TableOf(tokens), scale, TableOf(positions), x.rows, x.cols, Out(x));
  Done();
}

void CudaDevice::Norm(const NormWeight& norm, Matrix x, Matrix y) {
  assert(x.rows == y.rows && x.cols == y.cols);
  cuda::LaunchNorm(stream_, norm, In(x), {y.data, y.dtype}, x.rows, x.cols);
  Done();
}

void CudaDevice::AddNormed(const NormWeight& norm, Matrix x, Matrix y) {
  assert(x.rows == y.rows && x.cols == y.cols && y.dtype == DType::kF32);
  cuda::LaunchAddNormed(stream_, norm, In(x), Out(y), x.rows, x.cols);
  Done();
}

void CudaDevice::AddExperts(const Experts& experts, const ExpertRouting& routing, Activation activation, Matrix x,
                            Matrix logits, Matrix inner, Matrix y) {
  const auto& on_device = static_cast<const CudaExperts&>(experts);
  assert(static_cast<int64_t>(experts.up().size()) == logits.cols && logits.rows == x.rows);
  assert(x.rows == y.rows && x.cols == y.cols && inner.rows == x.rows * routing.per_row);
  assert(chosen_experts_ != nullptr);
  assert(static_cast<size_t>(inner.rows) * sizeof(cuda::ExpertShare) <= chosen_experts_->bytes());
  auto* chosen = static_cast<cuda::ExpertShare*>(chosen_experts_->data());
  cuda::LaunchChooseExperts(stream_, In(logits), x.rows, logits.cols, routing, chosen);
  for (const WeightFormat format : on_device.up_formats()) {
    cuda::LaunchExpertsUp(stream_, on_device.up_matrices(), format, chosen, routing.per_row, activation,
                          {x.data, x.dtype}, x.rows, {inner.data, inner.dtype}, inner.cols);
  }
  for (const WeightFormat format : on_device.down_formats()) {
    cuda::LaunchExpertsDown(stream_, on_device.down_matrices(), format, chosen, routing.per_row,
                            {inner.data, inner.dtype}, x.rows, Out(y), y.cols);
  }
  Done();
}

void CudaDevice::SoftCap(float cap, Matrix x) {
  cuda::LaunchSoftCap(stream_, cap, Out(x), x.rows, x.cols);
  Done();
}

void CudaDevice::Multiply(const LinearWeight& weight, const AdapterWeight* adapters, Epilogue epilogue,
                          Activation activation, Matrix x, Matrix y) {
  const auto& linear = static_cast<const CudaLinear&>(weight);
  assert(x.dtype == DType::kF32 || x.dtype == (linear.packed() ? DType::kBF16 : linear.view().dtype));
  const auto* added = step_->adapted() ? static_cast<const CudaAdapterWeight*>(adapters) : nullptr;
  assert(added == nullptr || x.rows == step_->tokens());
  for (int64_t begin = 0; begin < x.rows; begin += kProductRows) {
    const Chunk chunk = {.begin = begin, .n = std::min(kProductRows, x.rows - begin), .of = x.rows};
    const cuda::Input in(RowsFrom(x, begin), x.dtype);
    const cuda::Output out(RowsFrom(y, begin), y.dtype);
    if (added != nullptr) {
      MultiplyAdapted(linear, added->view(), epilogue, activation, in, chunk, out);
    } else {
      MultiplyRows(linear, epilogue, activation, in, chunk, out);
    }
  }
  Done();
}

void CudaDevice::MultiplyRows(const CudaLinear& weight, Epilogue epilogue, Activation activation, const cuda::Input& x,
                              const Chunk& chunk, const cuda::Output& y) {
  if (weight.packed()) {
    MultiplyPacked(weight, epilogue, activation, x, chunk, y);
  } else if (chunk.n <= cuda::kMatvecRowsMax) {
    cuda::LaunchMatvec(stream_, weight.view(), epilogue, activation, x, chunk.n, y);
  } else {
    MultiplyMany(weight.view(), epilogue, activation, x, chunk.n, y);
  }
}

// What is activated goes through `gate_`: adapters change the sums.
void CudaDevice::MultiplyAdapted(const CudaLinear& weight, const cuda::AdapterView& adapters, Epilogue epilogue,
                                 Activation activation, const cuda::Input& x, const Chunk& chunk,
                                 const cuda::Output& y) {
  const int64_t n = chunk.n;
  assert(static_cast<size_t>(n * adapters.parts * adapters.rank_max) * sizeof(float) <= adapter_inner_->bytes());
  auto* inner = static_cast<float*>(adapter_inner_->data());
  cuda::LaunchAdapterInner(stream_, step_->view(), adapters, chunk.begin, x, n, inner);
  const bool activates = epilogue == Epilogue::kActivate || epilogue == Epilogue::kGate;
  const int64_t rows = weight.spec().rows;
  assert(!activates || static_cast<size_t>(n * rows) * sizeof(float) <= gate_->bytes());
  float* sums = static_cast<float*>(activates ? gate_->data() : y.data);
  MultiplyRows(weight, activates ? Epilogue::kStore : epilogue, activation, x, chunk, sums);
  cuda::LaunchAddAdapters(stream_, step_->view(), adapters, chunk.begin, inner, n, sums);
  if (epilogue == Epilogue::kGate) cuda::LaunchGate(stream_, nullptr, activation, sums, y, n, rows / 2);
  if (epilogue == Epilogue::kActivate) {
    cuda::LaunchFinishProduct(stream_, nullptr, /*activates=*/true, activation, sums, y, n, rows);
  }
}

const void* CudaDevice::Rounded(const cuda::Input& x, DType dtype, int64_t n, int64_t cols, int64_t* stride) {
  if (x.dtype == dtype) {
    *stride = cols;
    return x.data;
  }
  assert(static_cast<size_t>(n * *stride) * 2 <= rounded_x_->bytes());
  cuda::LaunchRound(stream_, static_cast<const float*>(x.data), dtype, rounded_x_->data(), n, cols, *stride);
  return rounded_x_->data();
}

float* CudaDevice::SumsFor(Epilogue epilogue, int64_t n, int64_t rows, const cuda::Output& y) {
  const bool aside = epilogue == Epilogue::kGate || y.dtype != DType::kF32;
  assert(!aside || static_cast<size_t>(n * rows) * sizeof(float) <= gate_->bytes());
  return static_cast<float*>(aside ? gate_->data() : y.data);
}

void CudaDevice::AddUp(const WeightView& weight, const void* x, int64_t x_stride, int64_t n, Epilogue epilogue,
                       float* sums, int64_t sums_stride) {
  const float one = 1.0f, keep = epilogue == Epilogue::kAccumulate ? 1.0f : 0.0f;
  // The library counts columns first: y^T = W x^T.
  CheckCuda(cublasGemmEx(blas_, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(weight.rows), static_cast<int>(n),
                         static_cast<int>(weight.cols), &one, weight.data, BlasType(weight.dtype),
                         static_cast<int>(weight.stride), x, BlasType(weight.dtype), static_cast<int>(x_stride), &keep,
                         sums, CUDA_R_32F, static_cast<int>(sums_stride), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
            "cublasGemmEx");
}

void CudaDevice::Finish(const float* bias, Epilogue epilogue, Activation activation, const float* sums, int64_t n,
                        int64_t rows, const cuda::Output& y) {
  if (epilogue == Epilogue::kGate) {
    cuda::LaunchGate(stream_, bias, activation, sums, y, n, rows / 2);
  } else if (bias != nullptr || epilogue == Epilogue::kActivate) {
    cuda::LaunchFinishProduct(stream_, bias, epilogue == Epilogue::kActivate, activation, sums, y, n, rows);
  }
}

void CudaDevice::MultiplyMany(const WeightView& weight, Epilogue epilogue, Activation activation, const cuda::Input& x,
                              int64_t n, const cuda::Output& y) {
  int64_t stride = weight.stride;
  const void* operand = Rounded(x, weight.dtype, n, weight.cols, &stride);
  float* sums = SumsFor(epilogue, n, weight.rows, y);
  AddUp(weight, operand, stride, n, epilogue, sums, weight.rows);
  Finish(weight.bias, epilogue, activation, sums, n, weight.rows, y);
}

void CudaDevice::MultiplyUnpacked(const CudaLinear& weight, Epilogue epilogue, Activation activation, const void* x,
                                  const Chunk& chunk, const cuda::Output& y) {
  const int64_t rows = weight.spec().rows, cols = weight.spec().cols, n = chunk.n;
  assert(2 * cuda::kUnpackOutputsMin * cols <= static_cast<int64_t>(shared_->bytes()));
  const int64_t of_slice = cuda::UnpackedRows(rows, cols, static_cast<int64_t>(shared_->bytes()));
  float* sums = SumsFor(epilogue, n, rows, y);
  auto* unpacked = static_cast<std::byte*>(shared_->data());
  const bool is_there = chunk.begin > 0 && of_slice >= rows;
  for (int64_t begin = 0; begin < rows; begin += of_slice) {
    const int64_t end = std::min(rows, begin + of_slice);
    int64_t part_begin = 0;
    for (const cuda::PackedView& part : weight.parts()) {
      const int64_t part_end = part_begin + part.rows;
      const int64_t from = std::max(begin, part_begin), until = std::min(end, part_end);
      if (from < until && !is_there) {
        cuda::LaunchUnpack(stream_, part, from - part_begin, until - from, unpacked + (from - begin) * cols * 2);
      }
      part_begin = part_end;
    }
    AddUp({unpacked, DType::kBF16, end - begin, cols, cols}, x, cols, n, epilogue, sums + begin, rows);
  }
  Finish(weight.bias(), epilogue, activation, sums, n, rows, y);
}

void CudaDevice::MultiplyPacked(const CudaLinear& weight, Epilogue epilogue, Activation activation,
                                const cuda::Input& x, const Chunk& chunk, const cuda::Output& y) {
  const int64_t rows = weight.spec().rows, cols = weight.spec().cols, n = chunk.n;
  int64_t stride = cols;
  const void* operand = Rounded(x, DType::kBF16, n, cols, &stride);
  if (chunk.of >= cuda::kUnpackRows) return MultiplyUnpacked(weight, epilogue, activation, operand, chunk, y);
  const std::vector<cuda::PackedView>& parts = weight.parts();
  const cuda::Multiprocessors multiprocessors = {properties_.multiProcessorCount, HasWarpgroups()};
  if (epilogue != Epilogue::kGate) {
    int64_t first = 0;
    for (const cuda::PackedView& part : parts) {
      const cuda::Output to(static_cast<std::byte*>(y.data) + static_cast<size_t>(first) * DTypeBytes(y.dtype),
                            y.dtype);
      cuda::LaunchPackedProduct(stream_, part, epilogue, activation, operand, n, multiprocessors, to, rows);
      first += part.rows;
    }
    return;
  }
  if (cuda::TakesPackedGate(parts[0], parts[1], n, multiprocessors)) {
    cuda::LaunchPackedGate(stream_, parts[0], parts[1], activation, operand, n, multiprocessors, y);
    return;
  }
  assert(static_cast<size_t>(n * rows) * sizeof(float) <= gate_->bytes());
  auto* sums = static_cast<float*>(gate_->data());
  for (const cuda::PackedView& part : parts) {
    cuda::PackedView unbiased = part;
    unbiased.bias = nullptr;  // LaunchGate adds it
    cuda::LaunchPackedProduct(stream_, unbiased, Epilogue::kStore, activation, operand, n, multiprocessors,
                              &part == &parts[0] ? sums : sums + parts[0].rows, rows);
  }
  cuda::LaunchGate(stream_, weight.bias(), activation, sums, y, n, rows / 2);
}

void CudaDevice::GatherRows(Matrix x, std::span<const int32_t> indices, Matrix y) {
  assert(y.rows == static_cast<int64_t>(indices.size()) && x.cols == y.cols);
  uploads_->Begin(cuda::Uploads::PacketBytes(indices));
  const int32_t* at = uploads_->Add(indices);
  uploads_->Send();
  cuda::LaunchGatherRows(stream_, In(x), at, Out(y), y.rows, y.cols);
  Done();
}

}  // namespace hydrant
