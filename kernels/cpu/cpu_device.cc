#include "kernels/cpu/cpu_device.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <iterator>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/attention/attention_scratch.h"
#include "kernels/cpu/eviction/shrink_scratch.h"
#include "kernels/cpu/linear/adapter_kernels.h"
#include "kernels/cpu/linear/cpu_adapter_weight.h"
#include "kernels/cpu/linear/cpu_linear.h"
#include "kernels/cpu/linear/expert_scratch.h"
#include "kernels/cpu/linear/linear_kernels.h"
#include "kernels/cpu/linear/quantised_layout.h"
#include "kernels/cpu/runtime/row_kernels.h"
#include "kernels/cpu/sampling/sampling_scratch.h"

namespace hydrant {
namespace {

// An op of fewer elements than this runs on the calling thread: handing it out costs about as much (half a
// microsecond).
constexpr int64_t kParallelElements = 8192;

// Up to this many rows of x, every thread prepares its own copy: that costs less than a barrier.
constexpr int64_t kPrivateRows = 4;

float* Floats(const Matrix& matrix) {
  assert(matrix.dtype == DType::kF32);
  return static_cast<float*>(matrix.data);
}

// Part `part` of [0, count) cut into `parts`.
ThreadPool::Range Part(int64_t count, int64_t part, int64_t parts) {
  return {count * part / parts, count * (part + 1) / parts};
}

// A product is cut into a grid of parts, one per thread: along the panels, and where those do not divide well, along the
// tiles of x too (then several threads read the same weights). Returns the parts along the tiles, a divisor of `threads`.
int TileParts(int threads, int64_t tiles, int64_t panels) {
  int best = 1;
  int64_t best_work = std::numeric_limits<int64_t>::max();
  for (int parts = 1; parts <= threads && parts <= tiles; ++parts) {
    if (threads % parts != 0) continue;
    const int64_t panel_parts = threads / parts;
    const int64_t work = (tiles + parts - 1) / parts * ((panels + panel_parts - 1) / panel_parts);
    if (work >= best_work) continue;
    best_work = work;
    best = parts;
  }
  return best;
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
  ReserveScratch({});
}

CpuDevice::~CpuDevice() = default;

std::string CpuDevice::name() const {
  return absl::StrCat("cpu ", IsaName(kernels_.isa), ", ", pool_.threads(),
                      pool_.threads() == 1 ? " thread" : " threads");
}

bool CpuDevice::Supports(WeightFormat format) const { return !IsQuantised(format) || LayoutOf(format).code_bits > 0; }

// Measured (model_bench, the default model, two cores with AVX-512 VNNI and bf16): from prompts of 512 to those of 2,000 tokens a
// token takes as much longer as if a slot of attention cost that many of its operations. Attention is in fp32 or bf16 whatever the
// weights are, so the faster their products, the dearer it is beside them.
double CpuDevice::AttentionCost(WeightFormat format) const {
  if (IsQuantised(format)) return 2.5;
  return format == WeightFormat::kBF16 && MultipliesNatively(DType::kBF16) ? 1.3 : 1;
}

bool CpuDevice::MultipliesNatively(DType dtype) const { return kernels_.linear->native(dtype); }

std::unique_ptr<DeviceBuffer> CpuDevice::Allocate(size_t bytes) { return std::make_unique<CpuBuffer>(bytes); }

void CpuDevice::CopyToDevice(void* dst, const void* src, size_t bytes) {
  if (bytes != 0) std::memcpy(dst, src, bytes);
}

void CpuDevice::CopyToHost(void* dst, const void* src, size_t bytes) {
  if (bytes != 0) std::memcpy(dst, src, bytes);
}

std::unique_ptr<LinearWeight> CpuDevice::MakeLinear(const LinearSpec& spec, const WeightRows& rows,
                                                    std::span<const float> bias) {
  return std::make_unique<CpuLinear>(spec, rows, bias, *kernels_.linear, pool_);
}

int64_t CpuDevice::LinearBytes(const LinearSpec& spec, bool biased) const { return CpuLinear::Bytes(spec, biased); }

// The panels are those of linear_kernels.h and quantised_layout.h, whatever instructions multiply them.
std::string CpuDevice::weight_layout() const { return "cpu panels 1"; }

std::vector<int64_t> CpuDevice::PieceBytes(const LinearSpec& spec, int64_t piece_bytes_max) const {
  return CpuLinear::PieceBytes(spec, piece_bytes_max);
}

int64_t CpuDevice::RowPartBytes(const LinearSpec& spec) const { return CpuLinear::PanelBytesMax(spec); }

std::unique_ptr<LinearWeight> CpuDevice::MakeLinearInPieces(const LinearSpec& spec, std::span<const float> bias,
                                                            WeightPieces& pieces, int32_t first,
                                                            int64_t piece_bytes_max) {
  return std::make_unique<CpuLinear>(spec, bias, pieces, first, piece_bytes_max);
}

void CpuDevice::PackPiece(LinearWeight& weight, int32_t piece, const WeightRows& rows) {
  static_cast<CpuLinear&>(weight).PackPiece(piece, rows, *kernels_.linear, pool_);
}

// Threads with copies of their own round them up to cache lines.
size_t CpuDevice::PreparedBytes(const StepBounds& bounds) const {
  const auto threads = static_cast<size_t>(pool_.threads());
  size_t bytes = 0;
  for (const ProductKernels* kernels : {&kernels_.linear->product, kernels_.quantised}) {
    const size_t all = kernels->prepared_bytes(bounds.tokens_max, bounds.cols_max);
    const size_t own = kernels->prepared_bytes(kPrivateRows, bounds.cols_max);
    bytes = std::max({bytes, CacheAligned(all), threads * CacheAligned(own)});
  }
  return bytes;
}

size_t CpuDevice::EmbeddingFloats(const StepBounds& bounds) const {
  return static_cast<size_t>(pool_.threads()) * static_cast<size_t>(bounds.cols_max);
}

void CpuDevice::ReserveScratch(const StepBounds& bounds) {
  prepared_x_ = std::make_unique<CpuBuffer>(PreparedBytes(bounds));
  embedding_rows_.assign(EmbeddingFloats(bounds), 0.0f);
  attention_ = std::make_unique<AttentionScratch>(pool_.threads(), bounds);
  experts_ = std::make_unique<ExpertScratch>(pool_.threads(), bounds, PreparedExpertRowBytes(bounds.expert_cols_max));
  shrink_ = std::make_unique<ShrinkScratches>(pool_.threads(), bounds);
  sampling_ = std::make_unique<SamplingScratches>(pool_.threads(), bounds);
  adapters_.Reserve(bounds, kernels_.adapter->pairs);
  token_ids_.reserve(static_cast<size_t>(bounds.tokens_max));
  left_in_.reserve(static_cast<size_t>(bounds.rows_max));
  sampled_ids_.assign(static_cast<size_t>(bounds.rows_max), 0);
}

int64_t CpuDevice::ScratchBytes(const StepBounds& bounds) const {
  const auto ids = static_cast<size_t>(bounds.tokens_max) + static_cast<size_t>(bounds.rows_max);
  return static_cast<int64_t>(
      PreparedBytes(bounds) + EmbeddingFloats(bounds) * sizeof(float) + ids * sizeof(int32_t) +
      static_cast<size_t>(bounds.rows_max) * sizeof(BatchRow) + AttentionScratch::Bytes(pool_.threads(), bounds) +
      ExpertScratch::Bytes(pool_.threads(), bounds, PreparedExpertRowBytes(bounds.expert_cols_max)) +
      ShrinkScratches::Bytes(pool_.threads(), bounds) + SamplingScratches::Bytes(pool_.threads(), bounds) +
      AdapterScratch::Bytes(bounds, kernels_.adapter->pairs));
}

int64_t CpuDevice::BeginStep(const StepBatch& batch) {
  batch_ = batch;
  token_ids_.assign(batch.token_ids.begin(), batch.token_ids.end());
  left_in_.clear();
  for (const BatchRow& row : batch.rows) {
    int32_t& id = token_ids_[static_cast<size_t>(row.token_begin)];
    if (id == kSampledId) id = sampled_ids_[static_cast<size_t>(row.state_row)];
    if (id == kNoNextId) {
      id = 0;
    } else {
      left_in_.push_back(row);
    }
  }
  adapters_.Begin(batch.rows);
  batch_.token_ids = token_ids_;
  product_ = 0;
  return std::ssize(batch.token_ids);
}

void CpuDevice::Embed(const LinearWeight* tokens, float scale, const LinearWeight* positions, Matrix x) {
  assert(tokens != nullptr || positions != nullptr);
  assert(x.rows == static_cast<int64_t>(batch_.token_ids.size()));
  const auto* first = static_cast<const CpuLinear*>(tokens != nullptr ? tokens : positions);
  const auto* second = static_cast<const CpuLinear*>(tokens != nullptr ? positions : nullptr);
  assert(x.cols == first->spec().cols && (second == nullptr || x.cols == second->spec().cols));
  float* out = Floats(x);
  // Rows that may have to be read from the disk are read by one thread.
  const bool in_pieces = first->pieces() != nullptr || (second != nullptr && second->pieces() != nullptr);
  pool_.ParallelFor(x.rows, in_pieces ? x.rows : RowGrain(x.cols), [&](int64_t begin, int64_t end, int thread) {
    // The last row that begins at or before token `begin`; rows follow each other without gaps.
    const BatchRow* row = nullptr;
    if (positions != nullptr) {
      row = &*std::prev(std::upper_bound(batch_.rows.begin(), batch_.rows.end(), begin,
                                         [](int64_t token, const BatchRow& r) { return token < r.token_begin; }));
    }
    for (int64_t token = begin; token < end; ++token) {
      while (row != nullptr && token >= int64_t{row->token_begin} + row->token_count) ++row;
      const int64_t position = row != nullptr ? row->position + token - row->token_begin : 0;
      float* to = out + token * x.cols;
      const int32_t id = batch_.token_ids[static_cast<size_t>(token)];
      first->ReadRow(tokens != nullptr ? id : position, *kernels_.linear, to);
      if (tokens != nullptr && scale != 1) {
        for (int64_t col = 0; col < x.cols; ++col) to[col] *= scale;
      }
      if (second == nullptr) continue;
      float* addend = embedding_rows_.data() + static_cast<size_t>(thread) * static_cast<size_t>(x.cols);
      second->ReadRow(position, *kernels_.linear, addend);
      for (int64_t col = 0; col < x.cols; ++col) to[col] += addend[col];
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

void CpuDevice::AddNormed(const NormWeight& norm, Matrix x, Matrix y) {
  assert(x.rows == y.rows && x.cols == y.cols);
  float* in = Floats(x);
  float* out = Floats(y);
  pool_.ParallelFor(x.rows, RowGrain(x.cols), [&](int64_t begin, int64_t end, int) {
    float* rows = in + begin * x.cols;
    kernels_.row->norm(norm, rows, x.cols, rows, x.cols, end - begin, x.cols);
    for (int64_t i = begin * x.cols; i < end * x.cols; ++i) out[i] += in[i];
  });
}

void CpuDevice::SoftCap(float cap, Matrix x) {
  float* values = Floats(x);
  pool_.ParallelFor(x.rows, RowGrain(x.cols), [&](int64_t begin, int64_t end, int) {
    kernels_.row->soft_cap(cap, values + begin * x.cols, (end - begin) * x.cols);
  });
}

CpuDevice::WeightPlace CpuDevice::NoteProduct(const char* data, int64_t panels, int64_t panel_bytes) {
  const size_t product = product_++;
  if (product >= products_.size()) return {};
  products_[product] = {data, panels, panel_bytes};
  const WeightPlace& next = products_[product + 1 < products_.size() ? product + 1 : 0];
  // After the last product of a step comes the first of the next step.
  return next.data != nullptr ? next : products_[0];
}

void CpuDevice::Multiply(const LinearWeight& weight, const AdapterWeight* adapters, Epilogue epilogue,
                         Activation activation, Matrix x, Matrix y) {
  if (x.rows == 0) return;
  const auto* added = adapters_.slots.empty() ? nullptr : static_cast<const CpuAdapterWeight*>(adapters);
  if (added != nullptr) ComputeInner(*added, x);
  const auto& linear = static_cast<const CpuLinear&>(weight);
  for (const LinearRun& run : linear.runs()) {
    if (run.piece >= 0) linear.pieces()->Want(run.piece);
    MultiplyRun(run, added, EpilogueOf(run.part, epilogue), activation, x, y);
  }
}

void CpuDevice::MultiplyRun(const LinearRun& run, const CpuAdapterWeight* adapters, Epilogue epilogue,
                            Activation activation, Matrix x, Matrix y) {
  const ProductKernels& kernels = run.quantised ? *kernels_.quantised : kernels_.linear->product;
  // All segments of a run take x in the form that the first one's format asks for.
  const WeightFormat format = run.segments.front().packed.format;
  const float* in = Floats(x);
  auto* prepared = static_cast<char*>(prepared_x_->data());
  const int64_t tiles = kernels.tile_count(x.rows);
  const size_t prepared_bytes = CacheAligned(kernels.prepared_bytes(x.rows, x.cols));
  // A thread's own copy of x, or one for all.
  const bool own_x = x.rows <= kPrivateRows;
  assert(prepared_bytes * static_cast<size_t>(own_x ? pool_.threads() : 1) <= prepared_x_->bytes());

  const char* data = run.panel(0);
  const WeightPlace next = NoteProduct(data, run.panels, (run.panel(run.panels) - data) / run.panels);
  const int tile_parts = TileParts(pool_.threads(), tiles, run.panels);
  const int panel_parts = pool_.threads() / tile_parts;
  pool_.Run([&](int thread) {
    const ThreadPool::Range panels = Part(run.panels, thread / tile_parts, panel_parts);
    const ThreadPool::Range own_tiles = Part(tiles, thread % tile_parts, tile_parts);
    LinearCall call;
    call.epilogue = epilogue;
    call.activation = activation;
    call.rows = x.rows;
    call.y_stride = y.cols;
    if (own_x) {
      char* own = prepared + prepared_bytes * static_cast<size_t>(thread);
      kernels.prepare(format, in, x.rows, x.cols, 0, tiles, own);
      call.x = own;
    } else {
      const ThreadPool::Range share = Part(tiles, thread, pool_.threads());
      kernels.prepare(format, in, x.rows, x.cols, share.begin, share.end, prepared);
      pool_.Barrier();
      call.x = prepared;
    }
    for (const LinearSegment& segment : run.segments) {
      const int64_t begin = std::max<int64_t>(panels.begin - segment.first_panel, 0);
      const int64_t end = std::min(panels.end - segment.first_panel, segment.panels);
      if (begin >= end) continue;
      const bool last = segment.first_panel + end == panels.end;
      AdapterRows added;
      if (adapters != nullptr) {
        added = adapters->RowsOf(segment);
        added.slots = adapters_.slots.data();
        added.before = adapters_.before.data();
        added.after = adapters_.after.data();
        added.inner = reinterpret_cast<const std::byte*>(adapters_.inner.data());
        added.add = kernels_.adapter->add;
        call.added = &added;
      }
      call.weight = segment.packed;
      call.y = Floats(y) + segment.first_output;
      call.next = last ? next.data + Part(next.panels, thread / tile_parts, panel_parts).begin * next.panel_bytes
                       : run.panel(segment.first_panel + end);
      kernels.multiply(call, own_tiles.begin, own_tiles.end, begin, end);
    }
  });
}

void CpuDevice::RunLayers(const void*, const std::function<void()>& ops) { ops(); }

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
