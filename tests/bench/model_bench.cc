// End-to-end speed of the model on the CPU device, without HTTP or scheduler: prompt processing, single-stream and batched
// decode, and what H2O costs at equal live slots. Every line names its limit and the measured fraction of it.
//
//   model_bench MODEL [--threads N] [--dtype auto|float32|bfloat16] [--json FILE] [--only pp,tg,batch,h2o]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "model/checkpoint.h"
#include "model/model_executor.h"
#include "tests/bench/bandwidth.h"

namespace hydrant {
namespace {

constexpr int32_t kBatchMax = 64;
constexpr int32_t kContextMax = 2048;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Drives sequences straight through the executor: sequence i owns state row i and a fixed range of blocks.
class Driver {
 public:
  Driver(const Checkpoint& checkpoint, Device& device, DType dtype) : vocab_(checkpoint.config().vocab) {
    const int32_t blocks_each = (kContextMax + kBlockSlots - 1) / kBlockSlots;
    ModelExecutorOptions options{.weight_dtype = dtype,
                                 .kv_dtype = dtype,
                                 .blocks = blocks_each * kBatchMax,
                                 .sequences_max = kBatchMax,
                                 .batch_tokens_max = kContextMax,
                                 .context_max = kContextMax};
    auto executor = ModelExecutor::Create(checkpoint, device, options);
    if (!executor.ok()) {
      std::fprintf(stderr, "%s\n", std::string(executor.status().message()).c_str());
      std::exit(1);
    }
    executor_ = std::move(*executor);
    tables_.resize(kBatchMax);
    for (int32_t i = 0; i < kBatchMax; ++i) {
      tables_[static_cast<size_t>(i)].resize(static_cast<size_t>(blocks_each));
      std::iota(tables_[static_cast<size_t>(i)].begin(), tables_[static_cast<size_t>(i)].end(), i * blocks_each);
    }
  }

  // Seconds to compute a prompt of `tokens` for each of `sequences`, in steps of `tokens`.
  double Prefill(int32_t sequences, int32_t tokens, const EvictionPolicy& policy) {
    std::vector<int32_t> prompt(static_cast<size_t>(tokens));
    for (int32_t i = 0; i < tokens; ++i) prompt[static_cast<size_t>(i)] = (i * 7919 + 13) % vocab_;
    const double begin = Now();
    for (int32_t s = 0; s < sequences; ++s) {
      StepInput input;
      StepRow row{.state_row = s, .tokens = prompt, .prompt_length = tokens, .block_table = tables_[static_cast<size_t>(s)],
                  .prefill = true, .sample = true, .policy = &policy, .sampling = &greedy_};
      if (policy.evicts && tokens > policy.keep()) row.shrink_to = policy.keep();
      input.rows.push_back(row);
      Run(input);
    }
    live_ = policy.evicts ? std::min(tokens, policy.keep()) : tokens;
    position_ = tokens;
    prompt_length_ = tokens;
    return Now() - begin;
  }

  // Seconds of each of `steps` decode steps with `sequences` rows, all at the same place.
  std::vector<double> Decode(int32_t sequences, int32_t steps, const EvictionPolicy& policy) {
    std::vector<int32_t> ids(static_cast<size_t>(sequences), 42);
    std::vector<double> seconds;
    for (int32_t step = 0; step < steps; ++step) {
      const bool reuse = policy.evicts && live_ == policy.keep() + 1;
      const int32_t live_after = reuse ? live_ : live_ + 1;
      StepInput input;
      for (int32_t s = 0; s < sequences; ++s) {
        input.rows.push_back(StepRow{.state_row = s,
                                     .tokens = std::span(ids).subspan(static_cast<size_t>(s), 1),
                                     .position = position_,
                                     .live = live_,
                                     .prompt_length = prompt_length_,
                                     .block_table = tables_[static_cast<size_t>(s)],
                                     .reuse_victim = reuse,
                                     .choose_victim = policy.evicts && live_after == policy.keep() + 1,
                                     .sample = true,
                                     .policy = &policy,
                                     .sampling = &greedy_});
      }
      const double begin = Now();
      const StepOutput output = Run(input);
      seconds.push_back(Now() - begin);
      for (int32_t s = 0; s < sequences; ++s) ids[static_cast<size_t>(s)] = output.rows[static_cast<size_t>(s)].sampled.id;
      live_ = live_after;
      ++position_;
    }
    return seconds;
  }

  double live() const { return live_; }
  size_t step_bytes() const { return executor_->weights().step_bytes(); }
  size_t kv_bytes_per_slot() const {
    const KvCacheLayout& layout = executor_->kv().layout;
    return 2 * static_cast<size_t>(layout.layers * layout.kv_heads * layout.head_dim) * DTypeBytes(layout.dtype);
  }

 private:
  StepOutput Run(const StepInput& input) { return executor_->Await(executor_->Launch(input)); }

  int32_t vocab_;
  std::unique_ptr<ModelExecutor> executor_;
  std::vector<std::vector<int32_t>> tables_;
  SamplingParams greedy_{.temperature = 0.0f};
  int32_t live_ = 0;
  int32_t position_ = 0;
  int32_t prompt_length_ = 0;
};

struct Line {
  std::string name;
  double value;
  std::string unit;
  double limit;  // same unit; 0: none
  std::string what_limits;
};

class Report {
 public:
  void Add(Line line) {
    if (line.limit > 0) {
      std::printf("%-34s %10.1f %-8s %10.1f %6.1f %%  %s\n", line.name.c_str(), line.value, line.unit.c_str(), line.limit,
                  100 * line.value / line.limit, line.what_limits.c_str());
    } else {
      std::printf("%-34s %10.3f %-8s %10s %8s  %s\n", line.name.c_str(), line.value, line.unit.c_str(), "", "",
                  line.what_limits.c_str());
    }
    std::fflush(stdout);
    lines_.push_back(std::move(line));
  }

  void WriteJson(const std::string& path) const {
    std::ofstream out(path);
    out << "{";
    for (size_t i = 0; i < lines_.size(); ++i) {
      out << (i ? ",\n " : "") << "\"" << lines_[i].name << "\": {\"value\": " << lines_[i].value << ", \"unit\": \""
          << lines_[i].unit << "\", \"limit\": " << lines_[i].limit << "}";
    }
    out << "}\n";
  }

 private:
  std::vector<Line> lines_;
};

void BenchPrefill(Driver& driver, Report& report) {
  for (int32_t tokens : {512, 2000}) {
    std::vector<double> seconds;
    driver.Prefill(1, tokens, EvictionPolicy{});
    for (int i = 0; i < 5; ++i) seconds.push_back(driver.Prefill(1, tokens, EvictionPolicy{}));
    report.Add({"prefill pp" + std::to_string(tokens), tokens / Median(seconds), "tok/s", 0, "compute"});
  }
}

void BenchDecode(Driver& driver, Report& report, double bytes_per_second) {
  for (int32_t batch : {1, 8, 16, 32}) {
    driver.Prefill(batch, 1, EvictionPolicy{});
    driver.Decode(batch, 4, EvictionPolicy{});
    const std::vector<double> seconds = driver.Decode(batch, batch == 1 ? 128 : 64, EvictionPolicy{});
    const double live = driver.live() - static_cast<double>(seconds.size()) / 2;
    const double bytes = static_cast<double>(driver.step_bytes()) +
                         batch * live * static_cast<double>(driver.kv_bytes_per_slot());
    report.Add({"decode batch " + std::to_string(batch), batch / Median(seconds), "tok/s",
                batch * bytes_per_second / bytes, "read bandwidth: weights + live KV"});
  }
}

// Dense and H2O in turn at (nearly) the same number of live slots, so that drift of the machine cancels.
void BenchH2o(Driver& driver, Report& report) {
  for (int32_t live : {256, 1024}) {
    const EvictionPolicy h2o{.evicts = true, .heavy = live / 2, .recent = live / 2};
    const int32_t batch = 16;
    std::vector<double> ratios;
    for (int i = 0; i < 7; ++i) {
      driver.Prefill(batch, live + 8, h2o);
      const double with = Median(driver.Decode(batch, 24, h2o));
      driver.Prefill(batch, live - 12, EvictionPolicy{});
      const double without = Median(driver.Decode(batch, 24, EvictionPolicy{}));
      ratios.push_back(with / without);
    }
    report.Add({"h2o / full step, " + std::to_string(live) + " live, batch 16", Median(ratios), "ratio", 0,
                "goal <= 1.05"});
  }
}

}  // namespace
}  // namespace hydrant

int main(int argc, char** argv) {
  using namespace hydrant;
  if (argc < 2) {
    std::fprintf(stderr, "usage: model_bench MODEL [--threads N] [--dtype auto|float32|bfloat16] [--json FILE] [--only pp,tg,h2o]\n");
    return 64;
  }
  int threads = 2;
  std::string dtype_name = "auto", json, only = "pp,tg,h2o";
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--threads") threads = std::atoi(argv[i + 1]);
    if (flag == "--dtype") dtype_name = argv[i + 1];
    if (flag == "--json") json = argv[i + 1];
    if (flag == "--only") only = argv[i + 1];
  }
  const double load_begin = Now();
  auto checkpoint = Checkpoint::Open(argv[1]);
  if (!checkpoint.ok()) {
    std::fprintf(stderr, "%s\n", std::string(checkpoint.status().message()).c_str());
    return 78;
  }
  auto created = CpuDevice::Create(CpuDeviceOptions{.threads = threads});
  if (!created.ok()) {
    std::fprintf(stderr, "%s\n", std::string(created.status().message()).c_str());
    return 78;
  }
  CpuDevice& device = **created;
  const bool bf16 = dtype_name == "bfloat16" || (dtype_name == "auto" && (*checkpoint)->config().stored_dtype != DType::kF32 &&
                                                 device.MultipliesNatively(DType::kBF16));
  Driver driver(**checkpoint, device, bf16 ? DType::kBF16 : DType::kF32);
  const double load_seconds = Now() - load_begin;

  const double bytes_per_second = MeasureReadBandwidth(threads);
  std::printf("%s; weights %s, %.1f MB per step; read bandwidth %.1f GB/s\n", device.name().c_str(), bf16 ? "bf16" : "fp32",
              static_cast<double>(driver.step_bytes()) * 1e-6, bytes_per_second * 1e-9);
  std::printf("%-34s %10s %-8s %10s %8s  %s\n", "what", "value", "unit", "limit", "of limit", "limited by");
  Report report;
  report.Add({"open and pack the model", load_seconds, "s", 0, "goal <= 1 s in all"});
  if (only.find("pp") != std::string::npos) BenchPrefill(driver, report);
  if (only.find("tg") != std::string::npos) BenchDecode(driver, report, bytes_per_second);
  if (only.find("h2o") != std::string::npos) BenchH2o(driver, report);
  if (!json.empty()) report.WriteJson(json);
  return 0;
}
