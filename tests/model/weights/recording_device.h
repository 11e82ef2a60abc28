// RecordingDevice computes nothing: it reads the rows of every weight as MakeLinear is told to, and remembers what it read.
#ifndef HYDRANT_TESTS_MODEL_WEIGHTS_RECORDING_DEVICE_H_
#define HYDRANT_TESTS_MODEL_WEIGHTS_RECORDING_DEVICE_H_

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/runtime/cpu_buffer.h"
#include "kernels/device.h"
#include "tests/model/weights/shaped_tensors.h"

namespace hydrant {

class RecordedWeight final : public LinearWeight {
 public:
  RecordedWeight(const LinearSpec& spec, const WeightRows& rows, std::span<const float> bias_of_rows)
      : LinearWeight(spec), bias(bias_of_rows.begin(), bias_of_rows.end()) {
    std::vector<LinearPart> read = spec.parts;
    if (read.empty()) read.push_back({spec.rows, spec.format});
    int64_t begin = 0;
    for (const LinearPart& part : read) {
      const int64_t end = begin + part.rows;
      std::string bytes;
      if (IsQuantised(part.format)) {
        bytes.resize(static_cast<size_t>(part.rows * RowBytes(part.format, spec.cols)));
        rows.stored(begin, end, reinterpret_cast<std::byte*>(bytes.data()));
      } else {
        bytes.resize(static_cast<size_t>(part.rows * spec.cols) * sizeof(float));
        rows.fp32(begin, end, reinterpret_cast<float*>(bytes.data()));
      }
      parts.push_back(std::move(bytes));
      begin = end;
    }
    assert(begin == spec.rows);
  }
  size_t bytes() const override { return static_cast<size_t>(PlainDevice().linear_bytes(spec_, !bias.empty())); }

  std::vector<std::string> parts;  // as stored where the format is quantised, else fp32
  std::vector<float> bias;
};

class RecordingDevice final : public Device {
 public:
  explicit RecordingDevice(std::vector<WeightFormat> quantised) : facts_(PlainDevice(std::move(quantised))) {}

  std::string name() const override { return "recording"; }
  std::string kv_format() const override { return "recording"; }
  bool Supports(WeightFormat format) const override { return facts_.supports(format); }
  DType PreferredInputType(const LinearSpec&) const override { return DType::kF32; }
  std::unique_ptr<DeviceBuffer> Allocate(size_t bytes) override { return std::make_unique<CpuBuffer>(bytes); }
  void CopyToDevice(void* dst, const void* src, size_t bytes) override { std::memcpy(dst, src, bytes); }
  void CopyToHost(void* dst, const void* src, size_t bytes) override { std::memcpy(dst, src, bytes); }
  std::unique_ptr<LinearWeight> MakeLinear(const LinearSpec& spec, const WeightRows& rows,
                                           std::span<const float> bias) override {
    return std::make_unique<RecordedWeight>(spec, rows, bias);
  }
  int64_t LinearBytes(const LinearSpec& spec, bool biased) const override { return facts_.linear_bytes(spec, biased); }
  std::unique_ptr<RopeTable> MakeRope(const RopeSpec&) override { return std::make_unique<NoRope>(); }

  void ReserveScratch(const StepBounds&) override { assert(false); }
  int64_t ScratchBytes(const StepBounds&) const override { return 0; }
  std::unique_ptr<AdapterWeight> MakeAdapterWeight(const LinearSpec&, const AdapterSpec&) override { return nullptr; }
  int64_t AdapterBytes(const LinearSpec&, const AdapterSpec&) const override { return 0; }
  void SetAdapter(AdapterWeight&, int32_t, std::span<const AdapterFactors>) override { assert(false); }
  void Multiply(const LinearWeight&, const AdapterWeight*, Epilogue, Activation, Matrix, Matrix) override {
    assert(false);
  }
  int64_t BeginStep(const StepBatch&) override { return Never(); }
  void RunLayers(const void*, const std::function<void()>&) override { assert(false); }
  void Embed(const LinearWeight*, float, const LinearWeight*, Matrix) override { assert(false); }
  void Norm(const NormWeight&, Matrix, Matrix) override { assert(false); }
  void AddNormed(const NormWeight&, Matrix, Matrix) override { assert(false); }
  void AddExperts(const Experts&, const ExpertRouting&, Activation, Matrix, Matrix, Matrix, Matrix) override {
    assert(false);
  }
  void RopeAndWriteKv(const RopeTable*, const HeadNorms&, int32_t, Matrix, const KvCacheView&) override {
    assert(false);
  }
  void SoftCap(float, Matrix) override { assert(false); }
  void Attention(const RopeTable*, const AttentionSpec&, int32_t, Matrix, const KvCacheView&, Matrix) override {
    assert(false);
  }
  void GatherRows(Matrix, std::span<const int32_t>, Matrix) override { assert(false); }
  void InitScores(std::span<const ScoreInit>, const KvCacheView&) override { assert(false); }
  void CopyBlocks(std::span<const BlockCopy>, const KvCacheView&) override { assert(false); }
  void ExportBlocks(std::span<const int32_t>, std::span<const int32_t>, const KvCacheView&, std::byte*) override {
    assert(false);
  }
  void ImportBlocks(std::span<const int32_t>, float, const KvCacheView&, const std::byte*) override { assert(false); }
  void ExportState(int32_t, const KvCacheView&, std::byte*) override { assert(false); }
  void ImportState(int32_t, const KvCacheView&, const std::byte*) override { assert(false); }
  void Shrink(std::span<const ShrinkOp>, const KvCacheView&) override { assert(false); }
  void MeasurePairs(const LossOp&, const KvCacheView&, std::span<double>) override { assert(false); }
  uint64_t Sample(Matrix, std::span<const SampleRequest>, std::span<SampleResult>) override { return Never(); }
  void AwaitSample(uint64_t) override { assert(false); }
  void ReadTile(const KvCacheView&, bool, int32_t, int32_t, int32_t, float*) override { assert(false); }

 private:
  struct NoRope final : RopeTable {};
  static int Never() {
    assert(false);
    return 0;
  }

  WeightDevice facts_;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_MODEL_WEIGHTS_RECORDING_DEVICE_H_
