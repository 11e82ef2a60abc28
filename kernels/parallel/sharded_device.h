// ShardedDevice is several devices, the ranks, that compute one model together (tensor parallel): each has a part of the outputs of
// every product and some of the KV heads. To whoever uses it, it is one device.
//
// Every rank has a copy of all matrices but queries, keys and values, which it has of its own heads. It computes its columns of a
// product, or its heads' part of attention, with all inputs, and a Collective puts the columns of all ranks together. What is small
// (norms, sampling) all ranks compute alike.
//
// Thread: engine; each rank's ops run on a thread of its own, of which rank 0's is the engine's.
//
// Invariants
//  1. No sum is divided: each output is added up by one rank, in the order of one device. So every matrix, score, victim and token has
//     the bits that one rank alone would give it, if a product's bits do not depend on how many outputs it has.
//  2. Outside the device nothing depends on the number of ranks: exported blocks and state rows have the bytes of one rank, and
//     kv_format() is its.
//  3. An op that fails on one rank fails: the others give up, and what that rank threw is thrown.
//
// Not supported, as server/tensor_parallel.h says to whoever asks: experts, adapters, weights in pieces, norms over all heads, ranks
// that queue.
#ifndef HYDRANT_KERNELS_PARALLEL_SHARDED_DEVICE_H_
#define HYDRANT_KERNELS_PARALLEL_SHARDED_DEVICE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/cpu/runtime/thread_pool.h"
#include "kernels/device.h"
#include "kernels/parallel/collective.h"
#include "kernels/parallel/sharded_memory.h"

namespace hydrant {

class ShardedDevice final : public Device {
 public:
  // REQUIRES: devices of one kind, that have computed an op when it returns; `collective` is theirs.
  ShardedDevice(std::vector<std::unique_ptr<Device>> ranks, std::unique_ptr<Collective> collective);
  ~ShardedDevice() override;

  std::string kv_format() const override { return ranks_.front()->kv_format(); }
  std::string name() const override;
  bool Supports(WeightFormat format) const override { return ranks_.front()->Supports(format); }
  bool MixesQuantised() const override { return ranks_.front()->MixesQuantised(); }
  bool ChoosesPins() const override { return ranks_.front()->ChoosesPins(); }
  double AttentionCost(WeightFormat format) const override { return ranks_.front()->AttentionCost(format); }
  DType PreferredInputType(const LinearSpec& spec) const override { return ranks_.front()->PreferredInputType(spec); }

  std::unique_ptr<DeviceBuffer> Allocate(size_t bytes) override;
  std::unique_ptr<DeviceBuffer> AllocateByHead(const KvCacheLayout& layout, size_t count, size_t unit_bytes) override;
  int64_t copies() const override { return count(); }
  void CopyToDevice(void* dst, const void* src, size_t bytes) override;
  void CopyToHost(void* dst, const void* src, size_t bytes) override;
  std::unique_ptr<LinearWeight> MakeLinear(const LinearSpec& spec, const WeightRows& rows,
                                           std::span<const float> bias) override;
  int64_t LinearBytes(const LinearSpec& spec, bool biased) const override;
  std::unique_ptr<RopeTable> MakeRope(const RopeSpec& spec) override;
  std::unique_ptr<AdapterWeight> MakeAdapterWeight(const LinearSpec& weight, const AdapterSpec& spec) override;
  int64_t AdapterBytes(const LinearSpec&, const AdapterSpec&) const override { return 0; }
  void SetAdapter(AdapterWeight& weight, int32_t slot, std::span<const AdapterFactors> parts) override;
  void ReserveScratch(const StepBounds& bounds) override;
  int64_t ScratchBytes(const StepBounds& bounds) const override;

#define HYDRANT_OP(result, name, parameters) result name parameters override;
#include "kernels/step_ops.inc"
#undef HYDRANT_OP
  void ReadTile(const KvCacheView& kv, bool value, int32_t layer, int32_t block, int32_t kv_head, float* out) override;

 private:
  int count() const { return static_cast<int>(ranks_.size()); }
  Device& At(int rank) const { return *ranks_[static_cast<size_t>(rank)]; }

  // Calls work(rank) for every rank at the same time, each on its thread; within RunLayers for the rank alone whose layers run.
  void Each(absl::FunctionRef<void(int rank)> work);

  // The rank's piece of a matrix that all ranks have, or of another address of Allocate. Null stays null.
  template <typename T>
  T* Of(int rank, T* address) const {
    return static_cast<T*>(const_cast<void*>(AddressOf(rank, address)));
  }
  const void* AddressOf(int rank, const void* address) const;
  Matrix Of(int rank, Matrix matrix) const;
  NormWeight Of(int rank, NormWeight norm) const;
  // The rank's heads of a cache.
  KvCacheView Of(int rank, const KvCacheView& kv) const;
  KvCacheLayout LayoutOf(const KvCacheLayout& layout) const;
  // Where the rank's heads of a block or a state row, of so many bytes, lie on their way. REQUIRES: the layout is one of AllocateByHead's.
  std::byte* Staging(int rank, size_t bytes);
  // The rank's heads of queries, keys and values, in the matrix that has room for all of them.
  Matrix HeadsOf(int rank, Matrix qkv) const;
  // What all ranks have answered, which is the same.
  uint64_t Answer() const;
  StepBounds BoundsOf(const StepBounds& bounds) const;
  size_t PartBytes(const StepBounds& bounds) const;

  std::vector<std::unique_ptr<Device>> ranks_;
  std::unique_ptr<Collective> collective_;
  AddressMap addresses_;
  ThreadPool pool_;

  // By rank:
  std::vector<std::vector<std::byte>> staging_;  // an exported block of its heads, or a state row, of any layout so far
  std::vector<uint64_t> answers_;                // to the op that all carry out
  static constexpr size_t kSamplesAhead = 4;     // a step begins before the last one's AwaitSample has returned
  std::array<std::vector<uint64_t>, kSamplesAhead>
      samples_of_ranks_;                           // the ranks' numbers of the latest calls of Sample
  uint64_t samples_ = 0;                           // calls of Sample that all ranks carried out
  std::vector<std::vector<SampleRequest>> asked_;  // what all but the first sample
  std::vector<std::vector<SampleResult>> unread_;  // what they have
  std::vector<std::vector<double>> losses_;        // of its pairs
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_PARALLEL_SHARDED_DEVICE_H_
