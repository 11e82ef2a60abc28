// Times the products of a model's shapes through CpuDevice against what the machine can do at best: for each batch size,
// one pass over all layers and the head, with the whole weight set in memory so that no cache holds it from pass to pass.
// "best us" adds up the best time of every single product, which other load on the machine disturbs least; "median us" is
// the median of whole passes.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "tests/bench/bandwidth.h"
#include "tests/bench/reads_name.h"
#include "tests/kernels/stored_rows.h"

namespace hydrant {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// SmolLM2-135M.
constexpr int64_t kHidden = 576;
constexpr int64_t kQkv = 576 + 2 * 192;
constexpr int64_t kFfn = 1536;
constexpr int64_t kVocab = 49152;
constexpr int kLayers = 30;

struct Options {
  int threads = 2;
  WeightFormat format = WeightFormat::kBF16;
  std::vector<int64_t> rows = {1, 2, 4, 8, 16, 32, 64, 128, 512};
  int repeats = 10;
};

std::map<std::string, WeightFormat> FormatsByName() {
  std::map<std::string, WeightFormat> formats;
  for (size_t i = 0; i < std::size(kWeightFormats); ++i) {
    formats.emplace(kWeightFormats[i].name, static_cast<WeightFormat>(i));
  }
  return formats;
}

struct Layer {
  std::unique_ptr<LinearWeight> qkv, out, gate_up, down;
};

class Model {
 public:
  // A row of 576 is no whole number of blocks of 256: formats with such blocks are timed on wider rows.
  Model(CpuDevice& device, WeightFormat format)
      : device_(device), width_(InfoOf(format).block_elements == 256 ? 768 : kHidden) {
    std::mt19937 engine(1);
    std::uniform_real_distribution<float> uniform(-0.1f, 0.1f);
    source_.resize(static_cast<size_t>(width_ * kFfn));
    for (float& value : source_) value = uniform(engine);
    if (IsQuantised(format)) stored_ = RandomStoredRows(format, kFfn, kFfn, 1);
    for (int layer = 0; layer < kLayers; ++layer) {
      layers_.push_back({Make({kQkv, width_, format}), Make({width_, width_, format}),
                         Make({2 * kFfn, width_, format, true}), Make({width_, kFfn, format})});
    }
    head_ = Make({kVocab, width_, format});
  }

  // The products alone: x is the same for all layers. Lowers best[i] to the time of product i.
  void Pass(int64_t rows, bool head_for_all, std::vector<double>& best) {
    const Matrix hidden = View(hidden_, rows, width_);
    const Matrix out = View(out_, rows, width_);
    const Matrix qkv = View(qkv_, rows, kQkv);
    const Matrix ffn = View(ffn_, rows, kFfn);
    const int64_t head_rows = head_for_all ? rows : 1;
    best.resize(layers_.size() * 4 + 1, 1e9);
    size_t product = 0;
    const auto timed = [&](const auto& function) {
      const auto start = Clock::now();
      function();
      best[product] = std::min(best[product], SecondsSince(start));
      ++product;
    };
    for (const Layer& layer : layers_) {
      timed([&] { device_.Linear(*layer.qkv, hidden, qkv, false); });
      timed([&] { device_.Linear(*layer.out, hidden, out, false); });
      timed([&] { device_.LinearGated(*layer.gate_up, Activation::kSilu, hidden, ffn); });
      timed([&] { device_.Linear(*layer.down, ffn, out, false); });
    }
    timed([&] { device_.Linear(*head_, View(hidden_, head_rows, width_), View(logits_, head_rows, kVocab), false); });
  }

  void Reserve(int64_t rows_max) {
    const auto rows = static_cast<size_t>(rows_max);
    device_.ReserveScratch({.tokens_max = static_cast<int32_t>(rows_max), .cols_max = kFfn});
    hidden_.assign(rows * static_cast<size_t>(width_), 0.01f);
    out_.assign(rows * static_cast<size_t>(width_), 0.0f);
    qkv_.assign(rows * kQkv, 0.0f);
    ffn_.assign(rows * kFfn, 0.0f);
    logits_.assign(rows * kVocab, 0.0f);
  }

  double bytes() const {
    size_t sum = head_->bytes();
    for (const Layer& layer : layers_) {
      sum += layer.qkv->bytes() + layer.out->bytes() + layer.gate_up->bytes() + layer.down->bytes();
    }
    return static_cast<double>(sum);
  }

  double Operations(int64_t rows, bool head_for_all) const {
    const double layer = static_cast<double>(width_) * static_cast<double>(kQkv + width_ + 3 * kFfn);
    const double head = static_cast<double>(width_) * kVocab;
    return 2.0 *
           (static_cast<double>(rows) * layer * kLayers + (head_for_all ? static_cast<double>(rows) : 1.0) * head);
  }

 private:
  static Matrix View(std::vector<float>& values, int64_t rows, int64_t cols) {
    return {values.data(), DType::kF32, rows, cols};
  }

  std::unique_ptr<LinearWeight> Make(const LinearSpec& spec) {
    const RowReader reader = [&](int64_t begin, int64_t end, float* out) {
      for (int64_t row = begin; row < end; ++row, out += spec.cols) {
        const size_t offset = static_cast<size_t>(row * 7919) % (source_.size() - static_cast<size_t>(spec.cols));
        std::memcpy(out, source_.data() + offset, static_cast<size_t>(spec.cols) * sizeof(float));
      }
    };
    const StoredRowReader stored = [&](int64_t begin, int64_t end, std::byte* out) {
      const auto row_bytes = static_cast<size_t>(RowBytes(spec.format, spec.cols));
      const auto block_bytes = static_cast<size_t>(InfoOf(spec.format).block_bytes);
      for (int64_t row = begin; row < end; ++row, out += row_bytes) {
        const size_t blocks = (stored_.size() - row_bytes) / block_bytes;
        std::memcpy(out, stored_.data() + static_cast<size_t>(row * 7919) % blocks * block_bytes, row_bytes);
      }
    };
    return device_.MakeLinear(spec, WeightRows(reader, stored), {});
  }

  CpuDevice& device_;
  int64_t width_;
  std::vector<float> source_;
  std::vector<std::byte> stored_;  // of a quantised format
  std::vector<Layer> layers_;
  std::unique_ptr<LinearWeight> head_;
  std::vector<float> hidden_, out_, qkv_, ffn_, logits_;
};

int Run(const Options& options) {
  CpuDeviceOptions device_options;
  device_options.threads = options.threads;
  auto created = CpuDevice::Create(device_options);
  if (!created.ok()) {
    std::fprintf(stderr, "%s\n", std::string(created.status().message()).c_str());
    return 1;
  }
  CpuDevice& device = **created;

  const double bandwidth = MeasureReadBandwidth(options.threads);
  const bool quantised = IsQuantised(options.format);
  const bool bf16 = options.format == WeightFormat::kBF16 && device.MultipliesNatively(DType::kBF16);
  const double peak = quantised ? MeasurePeakInt8(ChooseIsa().value(), options.threads)
                      : bf16    ? MeasurePeakBf16(options.threads)
                                : MeasurePeakF32(options.threads);
  std::printf("%s, %s: read %.1f GB/s, %s peak %.0f GOP/s\n", device.name().c_str(),
              std::string(InfoOf(options.format).name).c_str(), bandwidth * 1e-9,
              quantised ? "int8"
              : bf16    ? "bf16"
                        : "fp32",
              peak * 1e-9);

  auto start = Clock::now();
  Model model(device, options.format);
  std::printf("packed %.0f MB in %.3f s\n", model.bytes() * 1e-6, SecondsSince(start));
  model.Reserve(*std::max_element(options.rows.begin(), options.rows.end()));

  std::printf("%6s %10s %9s %9s %7s %9s %7s %9s\n", "rows", "best us", "median us", "GB/s", "% read", "GOP/s", "% peak",
              "% limit");
  for (int64_t rows : options.rows) {
    // From 128 rows on this is prefill, where one row alone reaches the head.
    const bool head_for_all = rows < 128;
    std::vector<double> seconds, bests;
    for (int repeat = 0; repeat < options.repeats; ++repeat) {
      start = Clock::now();
      model.Pass(rows, head_for_all, bests);
      seconds.push_back(SecondsSince(start));
    }
    std::sort(seconds.begin(), seconds.end());
    const double best = std::accumulate(bests.begin(), bests.end(), 0.0);
    const double operations = model.Operations(rows, head_for_all);
    const double limit = std::max(model.bytes() / bandwidth, operations / peak);
    std::printf("%6lld %10.0f %9.0f %9.1f %7.1f %9.0f %7.1f %9.1f\n", static_cast<long long>(rows), best * 1e6,
                seconds[seconds.size() / 2] * 1e6, model.bytes() / best * 1e-9,
                100.0 * model.bytes() / best / bandwidth, operations / best * 1e-9, 100.0 * operations / best / peak,
                100.0 * limit / best);
  }
  return 0;
}

}  // namespace
}  // namespace hydrant

int main(int argc, char** argv) {
  hydrant::Options options;
  CLI::App app{"Products with weights on the CPU device, against the limits of the machine."};
  app.add_option("--threads", options.threads)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--format", options.format, "of the weights (default: bf16)")
      ->transform(hydrant::ReadsName(hydrant::FormatsByName()));
  app.add_option("--rows", options.rows, "batch sizes")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--repeats", options.repeats, "passes of each")->check(CLI::PositiveNumber)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return hydrant::Run(options);
}
