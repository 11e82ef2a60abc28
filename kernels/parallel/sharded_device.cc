#include "kernels/parallel/sharded_device.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/parallel/row_split.h"

namespace hydrant {
namespace {

// The rank whose layers run on this thread; -1: none's.
thread_local int running_rank = -1;

class RunningRank {
 public:
  explicit RunningRank(int rank) { running_rank = rank; }
  ~RunningRank() { running_rank = -1; }
  RunningRank(const RunningRank&) = delete;
  RunningRank& operator=(const RunningRank&) = delete;
};

// Each rank has the rows that it multiplies, and all rows of a table: Embed reads rows of any number, which only the device knows.
class ShardedWeight final : public LinearWeight {
 public:
  ShardedWeight(const LinearSpec& spec, size_t ranks) : LinearWeight(spec), products(ranks), tables(ranks) {}

  size_t bytes() const override {
    size_t sum = 0;
    for (const auto* weights : {&products, &tables}) {
      for (const auto& weight : *weights) sum += weight != nullptr ? weight->bytes() : 0;
    }
    return sum;
  }

  std::vector<std::unique_ptr<LinearWeight>> products, tables;
};

struct ShardedRope final : RopeTable {
  std::vector<std::unique_ptr<RopeTable>> of_ranks;
};

const RopeTable* RopeOf(int rank, const RopeTable* rope) {
  return rope == nullptr ? nullptr : static_cast<const ShardedRope*>(rope)->of_ranks[static_cast<size_t>(rank)].get();
}

const LinearWeight* TableOf(int rank, const LinearWeight* weight) {
  return weight == nullptr ? nullptr
                           : static_cast<const ShardedWeight*>(weight)->tables[static_cast<size_t>(rank)].get();
}

// A table as one rank has it: as a device without others would.
LinearSpec WholeTable(LinearSpec spec) {
  spec.use = LinearUse::kTable;
  return spec;
}

Columns ColumnsOf(const Matrix& whole, const Share& share) {
  const auto element = DTypeBytes(whole.dtype);
  return {static_cast<size_t>(whole.rows), static_cast<size_t>(whole.cols) * element,
          static_cast<size_t>(share.begin) * element, static_cast<size_t>(share.end) * element};
}

}  // namespace

ShardedDevice::ShardedDevice(std::vector<std::unique_ptr<Device>> ranks, std::unique_ptr<Collective> collective)
    : ranks_(std::move(ranks)),
      collective_(std::move(collective)),
      pool_(count()),
      staging_(ranks_.size()),
      answers_(ranks_.size()),
      samples_of_ranks_{answers_, answers_, answers_, answers_},
      asked_(ranks_.size()),
      unread_(ranks_.size()),
      losses_(ranks_.size()) {
  assert(!ranks_.empty());
}

ShardedDevice::~ShardedDevice() = default;

std::string ShardedDevice::name() const { return absl::StrCat(count(), " ranks of ", ranks_.front()->name()); }

void ShardedDevice::Each(absl::FunctionRef<void(int)> work) {
  if (running_rank >= 0) return work(running_rank);
  collective_->Begin();
  pool_.Run([&](int rank) {
    try {
      work(rank);
    } catch (const RankLost&) {
      // What the other rank threw is what has happened.
    } catch (...) {
      collective_->Fail();
      throw;
    }
  });
}

// --- memory -----------------------------------------------------------------------------------------------------------

std::unique_ptr<DeviceBuffer> ShardedDevice::Allocate(size_t bytes) {
  std::vector<std::unique_ptr<DeviceBuffer>> of_ranks(ranks_.size());
  Each([&](int rank) { of_ranks[static_cast<size_t>(rank)] = At(rank).Allocate(bytes); });
  return std::make_unique<ShardedBuffer>(addresses_, bytes, std::move(of_ranks));
}

std::unique_ptr<DeviceBuffer> ShardedDevice::AllocateByHead(const KvCacheLayout& layout, size_t count,
                                                            size_t unit_bytes) {
  const KvCacheLayout own = LayoutOf(layout);
  std::vector<std::unique_ptr<DeviceBuffer>> of_ranks(ranks_.size());
  Each([&](int rank) {
    of_ranks[static_cast<size_t>(rank)] = At(rank).AllocateByHead(own, count / ranks_.size(), unit_bytes);
    std::vector<std::byte>& staging = staging_[static_cast<size_t>(rank)];
    staging.resize(std::max({staging.size(), own.block_bytes(), own.state_bytes()}));  // that of the largest layout
  });
  return std::make_unique<ShardedBuffer>(addresses_, count * unit_bytes, std::move(of_ranks), unit_bytes,
                                         static_cast<size_t>(layout.kv_heads));
}

const void* ShardedDevice::AddressOf(int rank, const void* address) const {
  if (address == nullptr) return nullptr;
  const ShardedBuffer& buffer = addresses_.Find(address);
  assert(!buffer.by_head());
  return buffer.of(rank) + buffer.OffsetOf(address);
}

Matrix ShardedDevice::Of(int rank, Matrix matrix) const {
  matrix.data = Of(rank, matrix.data);
  return matrix;
}

NormWeight ShardedDevice::Of(int rank, NormWeight norm) const {
  norm.weight = Of(rank, norm.weight);
  norm.bias = Of(rank, norm.bias);
  return norm;
}

Matrix ShardedDevice::HeadsOf(int rank, Matrix qkv) const {
  assert(qkv.cols % count() == 0);
  qkv.data = Of(rank, qkv.data);
  qkv.cols /= count();
  return qkv;
}

void ShardedDevice::CopyToDevice(void* dst, const void* src, size_t bytes) {
  if (bytes == 0) return;
  Each([&](int rank) { At(rank).CopyToDevice(Of(rank, dst), src, bytes); });
}

// Any copy of a matrix will do: that of the rank whose thread is the caller's. Of a cache each rank copies the units that are its.
void ShardedDevice::CopyToHost(void* dst, const void* src, size_t bytes) {
  if (bytes == 0) return;
  const ShardedBuffer& buffer = addresses_.Find(src);
  if (!buffer.by_head()) return At(0).CopyToHost(dst, Of(0, src), bytes);
  const size_t unit = buffer.unit_bytes(), heads = buffer.heads(), own = heads / ranks_.size();
  const size_t begin = buffer.OffsetOf(src), end = begin + bytes;
  assert(begin % unit == 0 && bytes % unit == 0);
  Each([&](int rank) {
    for (size_t at = begin; at < end;) {
      const size_t head = at / unit % heads, row = at / unit / heads;
      const size_t run = std::min(end - at, (own - head % own) * unit);  // what the head's rank has from here on
      if (head / own == static_cast<size_t>(rank)) {
        At(rank).CopyToHost(static_cast<std::byte*>(dst) + (at - begin),
                            buffer.of(rank) + (row * own + head % own) * unit, run);
      }
      at += run;
    }
  });
}

// --- weights ----------------------------------------------------------------------------------------------------------

std::unique_ptr<LinearWeight> ShardedDevice::MakeLinear(const LinearSpec& spec, const WeightRows& rows,
                                                        std::span<const float> bias) {
  auto weight = std::make_unique<ShardedWeight>(spec, ranks_.size());
  Each([&](int rank) {
    const auto own = static_cast<size_t>(rank);
    if (spec.use != LinearUse::kProduct) weight->tables[own] = At(rank).MakeLinear(WholeTable(spec), rows, bias);
    if (spec.use == LinearUse::kTable) return;
    const RowSplit split(spec, rank, count());
    weight->products[own] = At(rank).MakeLinear(split.spec(), split.RowsOf(rows), split.BiasOf(bias));
  });
  return weight;
}

int64_t ShardedDevice::LinearBytes(const LinearSpec& spec, bool biased) const {
  int64_t bytes = 0;
  for (int rank = 0; rank < count(); ++rank) {
    if (spec.use != LinearUse::kProduct) bytes += At(rank).LinearBytes(WholeTable(spec), biased);
    if (spec.use != LinearUse::kTable) bytes += At(rank).LinearBytes(RowSplit(spec, rank, count()).spec(), biased);
  }
  return bytes;
}

std::unique_ptr<RopeTable> ShardedDevice::MakeRope(const RopeSpec& spec) {
  auto rope = std::make_unique<ShardedRope>();
  rope->of_ranks.resize(ranks_.size());
  Each([&](int rank) { rope->of_ranks[static_cast<size_t>(rank)] = At(rank).MakeRope(spec); });
  return rope;
}

std::unique_ptr<AdapterWeight> ShardedDevice::MakeAdapterWeight(const LinearSpec&, const AdapterSpec&) {
  assert(false);
  return nullptr;
}

void ShardedDevice::SetAdapter(AdapterWeight&, int32_t, std::span<const AdapterFactors>) { assert(false); }

StepBounds ShardedDevice::BoundsOf(const StepBounds& bounds) const {
  StepBounds own = bounds;
  own.query_heads /= count();
  return own;
}

size_t ShardedDevice::PartBytes(const StepBounds& bounds) const {
  const auto widest = [&](int64_t cols) { return (cols + count() - 1) / count(); };
  const int64_t inner = std::max(bounds.tokens_max, bounds.logits_rows_max) * widest(bounds.cols_max);
  const int64_t logits = bounds.logits_rows_max * widest(bounds.vocab);
  return static_cast<size_t>(std::max(inner, logits)) * sizeof(float);
}

void ShardedDevice::ReserveScratch(const StepBounds& bounds) {
  Each([&](int rank) {
    At(rank).ReserveScratch(BoundsOf(bounds));
    const auto requests_max = static_cast<size_t>(std::max(bounds.rows_max, bounds.logits_rows_max));
    asked_[static_cast<size_t>(rank)].reserve(requests_max);
    unread_[static_cast<size_t>(rank)].reserve(requests_max);
  });
  collective_->Reserve(PartBytes(bounds));
}

int64_t ShardedDevice::ScratchBytes(const StepBounds& bounds) const {
  int64_t bytes = collective_->ScratchBytes(PartBytes(bounds));
  for (int rank = 0; rank < count(); ++rank) bytes += At(rank).ScratchBytes(BoundsOf(bounds));
  return bytes;
}

// --- a step -----------------------------------------------------------------------------------------------------------

uint64_t ShardedDevice::Answer() const {
  assert(std::all_of(answers_.begin(), answers_.end(), [&](uint64_t of_rank) { return of_rank == answers_.front(); }));
  return answers_.front();
}

int64_t ShardedDevice::BeginStep(const StepBatch& batch) {
  Each([&](int rank) { answers_[static_cast<size_t>(rank)] = static_cast<uint64_t>(At(rank).BeginStep(batch)); });
  return static_cast<int64_t>(Answer());
}

void ShardedDevice::RunLayers(const void* program, const std::function<void()>& ops) {
  Each([&](int rank) {
    const RunningRank scope(rank);
    At(rank).RunLayers(program, ops);
  });
}

void ShardedDevice::Embed(const LinearWeight* tokens, float scale, const LinearWeight* positions, Matrix x) {
  Each([&](int rank) { At(rank).Embed(TableOf(rank, tokens), scale, TableOf(rank, positions), Of(rank, x)); });
}

void ShardedDevice::Norm(const NormWeight& norm, Matrix x, Matrix y) {
  Each([&](int rank) { At(rank).Norm(Of(rank, norm), Of(rank, x), Of(rank, y)); });
}

void ShardedDevice::AddNormed(const NormWeight& norm, Matrix x, Matrix y) {
  Each([&](int rank) { At(rank).AddNormed(Of(rank, norm), Of(rank, x), Of(rank, y)); });
}

void ShardedDevice::SoftCap(float cap, Matrix x) {
  Each([&](int rank) { At(rank).SoftCap(cap, Of(rank, x)); });
}

void ShardedDevice::Multiply(const LinearWeight& weight, const AdapterWeight* adapters, Epilogue epilogue,
                             Activation activation, Matrix x, Matrix y) {
  assert(adapters == nullptr);
  if (x.rows == 0) return;
  Each([&](int rank) {
    const LinearWeight& own = *static_cast<const ShardedWeight&>(weight).products[static_cast<size_t>(rank)];
    if (weight.spec().key_rows > 0) {
      assert(epilogue == Epilogue::kStore);
      return At(rank).Multiply(own, nullptr, epilogue, activation, Of(rank, x), HeadsOf(rank, y));
    }
    const Matrix whole = Of(rank, y);
    const Share share = ShareOf(y.cols, rank, count());
    const Columns columns = ColumnsOf(whole, share);
    // What is added to comes along: so each element is added to where its sum is formed, as a device without others does it.
    if (epilogue == Epilogue::kAccumulate) collective_->TakePart(rank, columns, whole.data);
    const Matrix part = {collective_->Part(rank, columns), y.dtype, y.rows, share.size()};
    At(rank).Multiply(own, nullptr, epilogue, activation, Of(rank, x), part);
    collective_->AllGather(rank, columns, whole.data);
  });
}

void ShardedDevice::AddExperts(const Experts&, const ExpertRouting&, Activation, Matrix, Matrix, Matrix, Matrix) {
  assert(false);
}

void ShardedDevice::RopeAndWriteKv(const RopeTable* rope, const HeadNorms& norms, int32_t layer, Matrix qkv,
                                   const KvCacheView& kv) {
  assert(!norms.over_heads || norms.q.weight == nullptr);
  Each([&](int rank) {
    const KvCacheView own = Of(rank, kv);
    HeadNorms of_rank = norms;
    of_rank.q = Of(rank, norms.q);
    of_rank.k = Of(rank, norms.k);
    of_rank.balance = Of(rank, norms.balance);
    if (norms.balance != nullptr) of_rank.balance += int64_t{rank} * own.layout.kv_heads * own.layout.head_dim;
    At(rank).RopeAndWriteKv(RopeOf(rank, rope), of_rank, layer, HeadsOf(rank, qkv), own);
  });
}

void ShardedDevice::Attention(const RopeTable* rope, const AttentionSpec& spec, int32_t layer, Matrix qkv,
                              const KvCacheView& kv, Matrix out) {
  Each([&](int rank) {
    const KvCacheView own = Of(rank, kv);
    const Matrix whole = Of(rank, out);
    const Share share = ShareOf(out.cols, rank, count());
    AttentionSpec of_rank = spec;
    of_rank.sinks = Of(rank, spec.sinks);
    if (spec.sinks != nullptr) of_rank.sinks += share.begin / own.layout.head_dim;
    const Columns columns = ColumnsOf(whole, share);
    const Matrix part = {collective_->Part(rank, columns), out.dtype, out.rows, share.size()};
    At(rank).Attention(RopeOf(rank, rope), of_rank, layer, HeadsOf(rank, qkv), own, part);
    collective_->AllGather(rank, columns, whole.data);
  });
}

void ShardedDevice::GatherRows(Matrix x, std::span<const int32_t> indices, Matrix y) {
  Each([&](int rank) { At(rank).GatherRows(Of(rank, x), indices, Of(rank, y)); });
}

// Every rank samples, and all the same: the next step finds the token on each. What is reported of a row besides, the first one
// reports. Each counts its own calls: where one had no memory, the step is lost, and the others have counted one more.
uint64_t ShardedDevice::Sample(Matrix logits, std::span<const SampleRequest> requests,
                               std::span<SampleResult> results) {
  Each([&](int rank) {
    const auto own = static_cast<size_t>(rank);
    const Matrix of_rank = requests.empty() ? logits : Of(rank, logits);
    if (rank == 0) {
      answers_[own] = At(rank).Sample(of_rank, requests, results);
      return;
    }
    asked_[own].assign(requests.begin(), requests.end());
    for (SampleRequest& request : asked_[own]) request.logprobs = -1;
    unread_[own].resize(requests.size());
    answers_[own] = At(rank).Sample(of_rank, asked_[own], unread_[own]);
  });
  ++samples_;
  samples_of_ranks_[samples_ % kSamplesAhead] = answers_;
  return samples_;
}

void ShardedDevice::AwaitSample(uint64_t number) {
  assert(number <= samples_ && number + kSamplesAhead > samples_);
  const std::vector<uint64_t>& of_ranks = samples_of_ranks_[number % kSamplesAhead];
  Each([&](int rank) { At(rank).AwaitSample(of_ranks[static_cast<size_t>(rank)]); });
}

}  // namespace hydrant
