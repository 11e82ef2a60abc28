// Weights that are streamed give the bits of those that lie in memory, and a disk that fails costs a step.
#include "model/weights/weight_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"
#include "tests/engine/engine_harness.h"
#include "tests/kernels/stored_rows.h"
#include "tests/model/checkpoint/family_checkpoint.h"
#include "tests/model/checkpoint/tiny_directory.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace hydrant {
namespace {

// A matrix of parts in any formats, with rows of random numbers.
struct MadeMatrix {
  explicit MadeMatrix(std::vector<LinearPart> parts, bool is_gated = false) {
    spec.cols = 256;
    spec.gated = is_gated;
    spec.format = parts.front().format;
    for (const LinearPart& part : parts) {
      const auto seed = static_cast<uint32_t>(spec.rows + static_cast<int>(part.format));
      const bool quantised = IsQuantised(part.format);
      stored.push_back(quantised ? RandomStoredRows(part.format, part.rows, spec.cols, seed)
                                 : std::vector<std::byte>());
      spec.rows += part.rows;
    }
    if (parts.size() > 1) spec.parts = parts;
    std::mt19937 random(7);
    for (int64_t i = 0; i < spec.rows * spec.cols; ++i) {
      fp32.push_back(std::uniform_real_distribution<float>(-1, 1)(random));
    }
    for (int64_t i = 0; i < spec.rows; ++i) bias.push_back(fp32[static_cast<size_t>(i)]);
    format_of = std::move(parts);
  }

  WeightRows rows() const {
    return WeightRows(
        [this](int64_t begin, int64_t end, float* out) {
          std::copy(fp32.begin() + begin * spec.cols, fp32.begin() + end * spec.cols, out);
        },
        [this](int64_t begin, int64_t end, std::byte* out) {
          int64_t first = 0;
          for (size_t i = 0; i < format_of.size(); first += format_of[i++].rows) {
            const int64_t from = std::max(begin, first), to = std::min(end, first + format_of[i].rows);
            if (from >= to) continue;
            const int64_t row_bytes = RowBytes(format_of[i].format, spec.cols);
            out = std::copy(stored[i].begin() + (from - first) * row_bytes,
                            stored[i].begin() + (to - first) * row_bytes, out);
          }
        });
  }

  LinearSpec spec;
  std::vector<LinearPart> format_of;
  std::vector<std::vector<std::byte>> stored;
  std::vector<float> fp32, bias;
};

std::vector<MadeMatrix> AllKinds() {
  using enum WeightFormat;
  std::vector<MadeMatrix> all;
  for (const WeightFormat format : {kF32, kF16, kBF16}) all.emplace_back(std::vector<LinearPart>{{100, format}});
  for (const WeightFormat format : kQuantisedFormats) all.emplace_back(std::vector<LinearPart>{{100, format}});
  for (const WeightFormat format : {kF32, kQ4_K}) {
    all.emplace_back(std::vector<LinearPart>{{72, format}, {72, format}}, /*is_gated=*/true);
  }
  all.emplace_back(std::vector<LinearPart>{{72, kQ4_K}, {72, kQ6_K}}, /*is_gated=*/true);
  all.emplace_back(std::vector<LinearPart>{{72, kBF16}, {72, kQ8_0}}, /*is_gated=*/true);
  all.emplace_back(std::vector<LinearPart>{{80, kQ4_K}, {33, kQ6_K}, {33, kBF16}});
  return all;
}

// The matrices, streamed through as little memory as will do.
class StreamedMatrices {
 public:
  StreamedMatrices(const std::vector<MadeMatrix>& matrices, Device& device, const std::string& path) {
    constexpr int64_t kPieceMax = 1;  // a panel each
    StreamPieces pieces;
    std::vector<int32_t> first;
    for (const MadeMatrix& matrix : matrices) {
      first.push_back(static_cast<int32_t>(pieces.bytes.size()));
      for (const int64_t bytes : device.PieceBytes(matrix.spec, kPieceMax)) pieces.bytes.push_back(bytes);
      pieces.part_bytes_max = std::max(pieces.part_bytes_max, device.RowPartBytes(matrix.spec));
    }
    pieces.in_pass.resize(pieces.bytes.size(), true);
    auto plan = StreamPlan::Make(pieces, 300 << 10);
    EXPECT_THAT(plan, IsOk());
    stream = std::make_unique<WeightStream>(*plan, device);
    const ImageLayout layout = {"matrices", pieces.bytes};
    auto writer = WeightImageWriter::Create(path, layout);
    for (size_t i = 0; i < matrices.size(); ++i) {
      const LinearSpec& spec = matrices[i].spec;
      weights.push_back(device.MakeLinearInPieces(spec, matrices[i].bias, *stream, first[i], kPieceMax));
      const auto count = static_cast<int32_t>(device.PieceBytes(spec, kPieceMax).size());
      for (int32_t piece = 0; piece < count; ++piece) {
        device.PackPiece(*weights.back(), piece, matrices[i].rows());
        EXPECT_THAT((*writer)->Write(stream->Room(first[i] + piece)), IsOk());
      }
    }
    EXPECT_THAT((*writer)->Finish(), IsOk());
    EXPECT_THAT(stream->Start(*WeightImage::Open(path, layout)), IsOk());
  }

  std::unique_ptr<WeightStream> stream;
  std::vector<std::unique_ptr<LinearWeight>> weights;
};

std::vector<float> Product(Device& device, const LinearWeight& weight, std::vector<float> x) {
  const LinearSpec& spec = weight.spec();
  const int64_t rows = static_cast<int64_t>(x.size()) / spec.cols;
  std::vector<float> y(static_cast<size_t>(rows * (spec.gated ? spec.rows / 2 : spec.rows)));
  const Matrix in{x.data(), DType::kF32, rows, spec.cols};
  const Matrix out{y.data(), DType::kF32, rows, static_cast<int64_t>(y.size()) / rows};
  if (spec.gated) {
    device.LinearGated(weight, Activation::kSilu, in, out);
  } else {
    device.Linear(weight, in, out, /*accumulate=*/false);
  }
  return y;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(WeightStream, EveryFormatMultipliesInPiecesAsWhole) {
  const TempDir dir;
  const std::unique_ptr<Device> device = MakeHarnessDevice(2);
  device->ReserveScratch({.tokens_max = 9,
                          .rows_max = 9,
                          .slots_max = 16,
                          .cols_max = 256,
                          .query_heads = 1,
                          .head_dim = 16,
                          .vocab = 16});
  const std::vector<MadeMatrix> matrices = AllKinds();
  StreamedMatrices streamed(matrices, *device, dir.File("image"));
  const StreamPlan& plan = streamed.stream->plan();
  EXPECT_LE(plan.bytes(), 300 << 10);
  EXPECT_GT(plan.pass_bytes, 5 * plan.memory_bytes / 2) << "else it is no test of a ring";
  EXPECT_NE(std::count(plan.resident.begin(), plan.resident.end(), true), 0);
  // In order, and then against it: whatever is asked for is what comes.
  std::vector<size_t> order;
  for (size_t i = 0; i < matrices.size(); ++i) order.push_back(i);
  for (size_t i = matrices.size(); i-- > 0;) order.push_back(i);
  for (const size_t i : order) {
    const MadeMatrix& matrix = matrices[i];
    const auto whole = device->MakeLinear(matrix.spec, matrix.rows(), matrix.bias);
    EXPECT_EQ(streamed.weights[i]->bytes(), whole->bytes());
    for (const int64_t rows : {1, 9}) {
      const std::vector<float> x(matrix.fp32.begin(), matrix.fp32.begin() + rows * matrix.spec.cols);
      EXPECT_TRUE(SameBits(Product(*device, *streamed.weights[i], x), Product(*device, *whole, x)))
          << "matrix " << i << ", " << rows << " rows";
    }
  }
  EXPECT_GE(streamed.stream->counters().bytes_read, static_cast<uint64_t>(plan.pass_bytes));
}

// What a model says, with every number that comes with it.
std::vector<Generation> Answers(EngineHarness& harness, uint64_t first_id = 1) {
  std::vector<SequenceRequest> requests;
  for (uint64_t i = 0; i < 3; ++i) {
    std::vector<int32_t> prompt;
    for (uint64_t k = 0; k < 20 + 13 * i; ++k) prompt.push_back(static_cast<int32_t>((7 * i + 3 * k) % 50));
    SequenceRequest request = Greedy(first_id + i, std::move(prompt), 4);
    request.logprobs = 5;
    request.prompt_logprobs = 0;
    requests.push_back(std::move(request));
  }
  return harness.Run(requests);
}

void ExpectSame(const std::vector<Generation>& a, const std::vector<Generation>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].tokens(), b[i].tokens());
    for (size_t k = 0; k < a[i].sampled.size(); ++k) {
      for (size_t t = 0; t < 5; ++t) {
        EXPECT_EQ(a[i].sampled[k].top[t].id, b[i].sampled[k].top[t].id);
        EXPECT_EQ(a[i].sampled[k].top[t].logprob, b[i].sampled[k].top[t].logprob);
      }
    }
    ASSERT_EQ(a[i].prompt.size(), b[i].prompt.size());
    for (size_t k = 0; k < a[i].prompt.size(); ++k) EXPECT_EQ(a[i].prompt[k].logprob, b[i].prompt[k].logprob);
  }
}

HarnessOptions Streamed(const TempDir& dir, int64_t memory_bytes, DType dtype = DType::kF32) {
  HarnessOptions options;
  options.dtype = dtype;
  options.stream = {memory_bytes, dir.File("image")};
  return options;
}

class StreamedFamilies : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, StreamedFamilies, testing::Values("llama_biases", "opt_post_norm", "qwen2"),
                         [](const auto& family) { return std::string(family.param); });

TEST_P(StreamedFamilies, SayWhatTheySayFromMemory) {
  const TempDir dir;
  FamilyCheckpoint(GetParam()).WriteTo(dir.path(), "BF16");
  const TempDir images;
  HarnessOptions whole;
  whole.dtype = DType::kBF16;
  EngineHarness resident(dir.path(), whole);
  EngineHarness streamed(dir.path(), Streamed(images, 72 << 10, DType::kBF16));
  if (HasFailure()) return;
  ExpectSame(Answers(streamed), Answers(resident));
  const WeightStream& stream = *streamed.executor().weights().stream;
  EXPECT_GT(stream.counters().bytes_read, static_cast<uint64_t>(2 * stream.plan().pass_bytes));
}

class FailingDisk : public testing::Test {
 protected:
  FailingDisk() {
    TinyDirectory().WriteTo(dir_.path());
    EngineHarness whole(dir_.path(), {});
    expected_ = Answers(whole);
    harness_.emplace(dir_.path(), Streamed(images_, kMemory));
  }

  // All requests end, each with what it lacked, and when the disk is well again everything is as ever.
  void ExpectLossAndRecovery(const std::function<void()>& harm, const std::function<void()>& mend,
                             const std::string& why) {
    ExpectSame(Answers(*harness_, 1), expected_);
    harm();
    for (uint64_t id = 10; id < 30; id += 10) {
      for (const Generation& generation : Answers(*harness_, id)) {
        EXPECT_EQ(generation.finish, FinishReason::kNoWeights);
        EXPECT_TRUE(generation.sampled.empty());
      }
    }
    EXPECT_THAT(harness_->engine().loss(), testing::HasSubstr(why));
    EXPECT_GT(harness_->executor().weights().stream->counters().failures, 0u);
    mend();
    ExpectSame(Answers(*harness_, 50), expected_);
  }

  // Flips a bit in every fourth kilobyte behind the header.
  void FlipBits() {
    std::fstream file(image_, std::ios::in | std::ios::out | std::ios::binary);
    const auto size = static_cast<int64_t>(std::filesystem::file_size(image_));
    for (int64_t at = 8192 + 77; at < size; at += 4096) {
      file.seekg(at);
      const char byte = static_cast<char>(file.get() ^ 1);
      file.seekp(at);
      file.put(byte);
    }
  }

  static constexpr int64_t kMemory = 72 << 10;
  TempDir dir_, images_;
  const std::string image_ = images_.File("image");
  std::vector<Generation> expected_;
  std::optional<EngineHarness> harness_;
};

TEST_F(FailingDisk, FlippedBitsEndTheRequestsAndNothingElse) {
  ExpectLossAndRecovery([this] { FlipBits(); }, [this] { FlipBits(); }, "checksum");
}

TEST_F(FailingDisk, AShorterFileEndsTheRequests) {
  std::filesystem::copy_file(image_, image_ + ".copy");
  const auto size = std::filesystem::file_size(image_);
  ExpectLossAndRecovery([&] { std::filesystem::resize_file(image_, 16384); },
                        [&] {
                          std::ifstream from(image_ + ".copy", std::ios::binary);
                          std::fstream to(image_, std::ios::in | std::ios::out | std::ios::binary);
                          to << from.rdbuf();
                          to.close();
                          ASSERT_EQ(std::filesystem::file_size(image_), size);
                        },
                        "it was longer");
}

// The image's descriptor becomes that of a directory, which no byte can be read of.
TEST_F(FailingDisk, AnErrorOfTheSystemEndsTheRequests) {
  int fd = -1;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(entry, error) == image_) fd = std::stoi(entry.path().filename());
  }
  ASSERT_GE(fd, 0);
  const int kept = dup(fd);
  ExpectLossAndRecovery(
      [&] {
        const int directory = open("/", O_RDONLY | O_CLOEXEC);
        dup2(directory, fd);
        close(directory);
      },
      [&] { dup2(kept, fd); }, "cannot be read at byte");
  close(kept);
}

TEST_F(FailingDisk, AnImageThatIsNotThisModelsIsWrittenAnew) {
  const auto written = [this] { return std::filesystem::last_write_time(image_); };
  const auto first = written();
  ExpectSame(Answers(*harness_), expected_);
  harness_.emplace(dir_.path(), Streamed(images_, kMemory));
  EXPECT_EQ(written(), first) << "it was there";
  // Torn.
  std::filesystem::resize_file(image_, 8192);
  harness_.emplace(dir_.path(), Streamed(images_, kMemory));
  ExpectSame(Answers(*harness_), expected_);
  // Another model of the same shape.
  TinyDirectory other;
  other.At("lm_head.weight").data.swap(other.At("model.embed_tokens.weight").data);
  other.WriteTo(dir_.path());
  EngineHarness whole(dir_.path(), {});
  harness_.emplace(dir_.path(), Streamed(images_, kMemory));
  ExpectSame(Answers(*harness_), Answers(whole));
}

TEST_F(FailingDisk, ACancelledRequestEndsAndTheOthersGoOn) {
  SequenceRequest request = Greedy(7, {1, 2, 3}, 50);
  ASSERT_THAT(harness_->engine().Add(std::move(request)), IsOk());
  for (int step = 0; step < 3; ++step) harness_->engine().Step();
  EXPECT_TRUE(harness_->engine().Cancel(7));
  EXPECT_EQ(harness_->engine().Step().back().finish, FinishReason::kAbort);
  ExpectSame(Answers(*harness_), expected_);
}

TEST(WeightStream, TooLittleMemoryAndWhatCannotBeStreamedAreRefused) {
  const TempDir dir, images;
  TinyDirectory().WriteTo(dir.path());
  const auto device = MakeHarnessDevice(1);
  const auto refusal = [&](int64_t bytes) {
    const auto checkpoint = Checkpoint::Open(dir.path());
    return StreamWeights(**checkpoint, *device, PlanWeights(**checkpoint, *device, {DType::kF32}, 128),
                         {bytes, images.File("image")})
        .status();
  };
  EXPECT_THAT(refusal(10'000), RefusedWith("it takes at least"));
  EXPECT_TRUE(std::filesystem::is_empty(images.path()));
  FamilyCheckpoint("mixtral").WriteTo(dir.path(), "BF16");
  EXPECT_THAT(refusal(72 << 10), RefusedWith("experts"));
}

}  // namespace
}  // namespace hydrant
