// End-to-end speed of the model on the CPU device, without HTTP or scheduler: prompt processing, single-stream and batched
// decode, and what H2O costs at equal live slots. Every line names its limit and the measured fraction of it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "model/checkpoint/checkpoint.h"
#include "model/run/model_executor.h"
#include "tests/bench/bandwidth.h"
#include "tests/bench/kv_types.h"
#include "tests/bench/reads_name.h"
#include "tests/bench/timing.h"

namespace hydrant {
namespace {

constexpr int32_t kSequencesMax = 32;
constexpr int32_t kContextMax = 2176;  // a budget of 2,048, a prompt that is cut, and some steps

// Sequences that run in step with each other, at the same place.
struct Cohort {
  int32_t first = 0;  // state row of the first one
  int32_t count = 1;
  EvictionPolicy policy;
  int32_t live = 0;
  int32_t position = 0;
  int32_t prompt_length = 0;
  std::vector<int32_t> ids;  // [count] the tokens that the next decode step reads
};

// Drives sequences straight through the executor: sequence i owns state row i and a fixed range of blocks.
class Driver {
 public:
  Driver(const Checkpoint& checkpoint, Device& device, WeightChoice choice, KvType kv_type)
      : config_(checkpoint.config) {
    const auto blocks_each = static_cast<int32_t>(BlocksForSlots(kContextMax));
    ModelExecutorOptions options{.weights = choice,
                                 .kv_type = kv_type,
                                 .blocks = blocks_each * kSequencesMax,
                                 .sequences_max = kSequencesMax,
                                 .batch_tokens_max = kContextMax,
                                 .context_max = kContextMax};
    auto executor = ModelExecutor::Create(checkpoint, device, options);
    if (!executor.ok()) {
      std::fprintf(stderr, "%s\n", std::string(executor.status().message()).c_str());
      std::exit(1);
    }
    executor_ = std::move(*executor);
    tables_.resize(kSequencesMax);
    for (int32_t i = 0; i < kSequencesMax; ++i) {
      tables_[static_cast<size_t>(i)].resize(static_cast<size_t>(blocks_each));
      std::iota(tables_[static_cast<size_t>(i)].begin(), tables_[static_cast<size_t>(i)].end(), i * blocks_each);
    }
  }

  // Seconds to compute a prompt of `tokens` for every sequence of `cohort`, one step each.
  double Prefill(Cohort& cohort, int32_t tokens) {
    std::vector<int32_t> prompt(static_cast<size_t>(tokens));
    for (int32_t i = 0; i < tokens; ++i) prompt[static_cast<size_t>(i)] = (i * 7919 + 13) % config_.vocab;
    const bool cut = cohort.policy.evicts && tokens > cohort.policy.keep();
    const double begin = Now();
    for (int32_t i = 0; i < cohort.count; ++i) {
      StepInput input;
      StepRow row;
      row.state_row = cohort.first + i;
      row.tokens = prompt;
      row.prompt_length = tokens;
      row.block_table = table(cohort, i);
      row.prefill = true;
      row.sample = true;
      row.policy = &cohort.policy;
      row.sampling = &greedy_;
      if (cut) row.shrink_to = cohort.policy.keep();
      input.rows.push_back(row);
      Run(input);
    }
    cohort.live = cut ? cohort.policy.keep() : tokens;
    cohort.position = tokens;
    cohort.prompt_length = tokens;
    cohort.ids.assign(static_cast<size_t>(cohort.count), 42);
    return Now() - begin;
  }

  // Seconds of one decode step of `cohort`.
  double Decode(Cohort& cohort) {
    const bool reuse = cohort.policy.evicts && cohort.live == cohort.policy.keep() + 1;
    const int32_t live_after = reuse ? cohort.live : cohort.live + 1;
    StepInput input;
    for (int32_t i = 0; i < cohort.count; ++i) {
      StepRow& row = input.rows.emplace_back();
      row.state_row = cohort.first + i;
      row.tokens = std::span(cohort.ids).subspan(static_cast<size_t>(i), 1);
      row.position = cohort.position;
      row.live = cohort.live;
      row.prompt_length = cohort.prompt_length;
      row.block_table = table(cohort, i);
      row.reuse_victim = reuse;
      row.choose_victim = cohort.policy.evicts && live_after == cohort.policy.keep() + 1;
      row.sample = true;
      row.policy = &cohort.policy;
      row.sampling = &greedy_;
    }
    const double begin = Now();
    const StepOutput output = Run(input);
    const double seconds = Now() - begin;
    for (size_t i = 0; i < cohort.ids.size(); ++i) cohort.ids[i] = output.rows[i].sampled.id;
    cohort.live = live_after;
    ++cohort.position;
    return seconds;
  }

  // Seconds to copy out the scores and positions of the cohort's first sequence.
  double Read(const Cohort& cohort, KvScores* score_blocks) {
    StepInput input;
    input.reads.push_back({.live = cohort.live, .score_blocks = table(cohort, 0), .out = score_blocks});
    const double begin = Now();
    Run(input);
    return Now() - begin;
  }

  // Elements of the weights that a decode step multiplies.
  double WeightCount() const {
    const Weights& weights = executor_->weights();
    const auto count = [](const LinearWeight& weight) {
      return static_cast<double>(weight.spec().rows) * static_cast<double>(weight.spec().cols);
    };
    double sum = count(weights.head());
    if (weights.project_in != nullptr) sum += count(*weights.project_in) + count(*weights.project_out);
    for (const LayerWeights& layer : weights.layers) {
      sum += count(*layer.qkv) + count(*layer.o);
      if (layer.router == nullptr) {
        sum += count(*layer.up) + count(*layer.down);
      } else {
        const double expert = count(*layer.experts->up().front()) + count(*layer.experts->down().front());
        sum += count(*layer.router) + weights.experts_per_token * expert;
      }
    }
    return sum;
  }
  // Bytes of weights that a decode step reads.
  size_t step_bytes() const { return executor_->weights().step_bytes(); }
  size_t kv_bytes_per_slot() const {
    const KvCacheLayout& layout = executor_->kv().layout;
    return 2 * layout.block_kv_bytes() / kBlockSlots;
  }
  // Multiplications and additions of a prompt: every weight but the head's once per token, every pair of positions in
  // attention, and the head for the last token alone.
  double PromptOperations(double tokens) const {
    const double weights = WeightCount();
    const double head = static_cast<double>(config_.vocab) * config_.hidden;
    const double attention =
        static_cast<double>(config_.layers) * config_.query_heads * config_.head_dim * tokens * tokens * 2;
    return 2 * (weights - head) * tokens + attention + 2 * head;
  }

 private:
  std::span<const int32_t> table(const Cohort& cohort, int32_t i) const {
    return tables_[static_cast<size_t>(cohort.first + i)];
  }
  StepOutput Run(const StepInput& input) { return executor_->Run(input); }

  const ModelConfig config_;
  std::unique_ptr<ModelExecutor> executor_;
  std::vector<std::vector<int32_t>> tables_;
  const SamplingParams greedy_{.temperature = 0.0f};
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
      std::printf("%-34s %10.1f %-8s %10.1f %6.1f %%  %s\n", line.name.c_str(), line.value, line.unit.c_str(),
                  line.limit, 100 * line.value / line.limit, line.what_limits.c_str());
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

void BenchPrefill(Driver& driver, Report& report, double operations_per_second) {
  for (int32_t tokens : {512, 2000}) {
    std::vector<double> seconds;
    Cohort cohort;
    driver.Prefill(cohort, tokens);
    for (int i = 0; i < 5; ++i) seconds.push_back(driver.Prefill(cohort, tokens));
    report.Add({"prefill pp" + std::to_string(tokens), tokens / Median(seconds), "tok/s",
                tokens * operations_per_second / driver.PromptOperations(tokens), "peak of the products"});
  }
}

// `steps` more of a cohort.
void TimeSteps(Driver& driver, Report& report, double bytes_per_second, Cohort& cohort, int steps, std::string name) {
  const int32_t begin = cohort.live;
  std::vector<double> seconds;
  for (int i = 0; i < steps; ++i) seconds.push_back(driver.Decode(cohort));
  const double live = (begin + cohort.live) / 2.0;
  const double bytes =
      static_cast<double>(driver.step_bytes()) + cohort.count * live * static_cast<double>(driver.kv_bytes_per_slot());
  report.Add({std::move(name), cohort.count / Median(seconds), "tok/s", cohort.count * bytes_per_second / bytes,
              "read bandwidth: weights + live KV"});
}

void BenchDecode(Driver& driver, Report& report, double bytes_per_second) {
  for (int32_t batch : {1, 8, 16, 32}) {
    Cohort cohort{.count = batch};
    driver.Prefill(cohort, 1);
    for (int i = 0; i < 4; ++i) driver.Decode(cohort);
    TimeSteps(driver, report, bytes_per_second, cohort, batch == 1 ? 128 : 64, "decode batch " + std::to_string(batch));
  }
}

// Steps over caches that weigh as much as the weights.
void BenchLive(Driver& driver, Report& report, double bytes_per_second) {
  for (int32_t batch : {1, 8, 16}) {
    Cohort cohort{.count = batch};
    driver.Prefill(cohort, 2000);
    TimeSteps(driver, report, bytes_per_second, cohort, 24, "decode, 2000 live, batch " + std::to_string(batch));
  }
}

// A full and an H2O cohort take turns, step by step and around the same number of live slots, so that drift of the machine
// cancels in the ratio.
void BenchH2o(Driver& driver, Report& report) {
  constexpr int32_t kBatch = 16, kSteps = 48;
  for (int32_t live : {256, 1024}) {
    Cohort h2o{.first = 0, .count = kBatch, .policy = {.evicts = true, .heavy = live / 2, .recent = live / 2}};
    Cohort full{.first = kBatch, .count = kBatch};
    driver.Prefill(h2o, live + 8);
    driver.Prefill(full, live - kSteps / 2);
    std::vector<double> ratios;
    for (int i = 0; i < 4; ++i) driver.Decode(h2o);
    for (int i = 0; i < kSteps; ++i) ratios.push_back(driver.Decode(h2o) / driver.Decode(full));
    report.Add(
        {"h2o / full step, " + std::to_string(live) + " live, batch 16", Median(ratios), "ratio", 0, "goal <= 1.05"});
  }
}

// The same for two H2O cohorts, of which one has its keys rotated to their ranks as they are read.
void BenchRolling(Driver& driver, Report& report) {
  constexpr int32_t kSteps = 64;
  for (int32_t live : {512, 2048}) {
    for (int32_t batch : {1, 8}) {
      Cohort absolute{.count = batch, .policy = {.evicts = true, .heavy = live / 2, .recent = live / 2}};
      Cohort rolling = absolute;
      rolling.first = batch;
      rolling.policy.rolling = true;
      driver.Prefill(absolute, live + 32);
      driver.Prefill(rolling, live + 32);
      std::vector<double> ratios, seconds;
      for (int i = 0; i < kSteps; ++i) {
        seconds.push_back(driver.Decode(rolling));
        ratios.push_back(seconds.back() / driver.Decode(absolute));
      }
      const std::string what = std::to_string(live) + " live, batch " + std::to_string(batch);
      report.Add({"rolling step, " + what, 1e3 * Median(seconds), "ms", 0, ""});
      report.Add({"rolling / absolute, " + what, Median(ratios), "ratio", 0, ""});
    }
  }
}

// What GET /v1/sessions/{id}/kv takes of the engine thread, between two decode steps; and the first time, when the memory it
// copies into is new.
void BenchKvMap(Driver& driver, Report& report) {
  for (int32_t budget : {256, 2048}) {
    Cohort cohort{.policy = {.evicts = true, .heavy = budget / 2, .recent = budget / 2}};
    driver.Prefill(cohort, budget + 8);
    std::vector<double> again, first;
    KvScores kept;
    for (int i = 0; i < 64; ++i) {
      driver.Decode(cohort);
      again.push_back(driver.Read(cohort, &kept));
      KvScores fresh;
      first.push_back(driver.Read(cohort, &fresh));
    }
    const std::string what = "KV map, budget " + std::to_string(budget);
    report.Add({what, 1e6 * Median(again), "us", 0, ""});
    report.Add({what + ", new memory", 1e6 * Median(first), "us", 0, ""});
  }
}

struct Arguments {
  std::string model;
  std::string dtype = "auto";
  std::optional<KvType> kv_type;  // else as the weights are expanded
  std::string json;
  std::vector<std::string> only = {"pp", "tg", "live", "h2o", "rolling", "kv_map"};
  int threads = 2;

  bool Wants(const char* part) const { return std::find(only.begin(), only.end(), part) != only.end(); }
};

int Run(const Arguments& arguments) {
  const double begin = Now();
  auto checkpoint = Checkpoint::Open(arguments.model);
  if (!checkpoint.ok()) {
    std::fprintf(stderr, "%s\n", std::string(checkpoint.status().message()).c_str());
    return 78;
  }
  auto created = CpuDevice::Create(CpuDeviceOptions{.threads = arguments.threads});
  if (!created.ok()) {
    std::fprintf(stderr, "%s\n", std::string(created.status().message()).c_str());
    return 78;
  }
  CpuDevice& device = **created;
  DType dtype = (*checkpoint)->config.stored_dtype;
  for (const DType named : {DType::kF32, DType::kBF16, DType::kF16}) {
    if (arguments.dtype == DTypeName(named)) dtype = named;
  }
  const WeightChoice choice = {dtype, /*keep_quantised=*/arguments.dtype == "auto"};
  const WeightPlan plan = PlanWeights(**checkpoint, device, choice, kContextMax);
  const bool quantised = std::any_of(plan.weights.begin(), plan.weights.end(), [](const PlannedWeight& weight) {
    return IsQuantised(weight.parts.front().computed);
  });
  const KvType kv_type = arguments.kv_type.value_or(KvTypeOf(dtype));
  Driver driver(**checkpoint, device, choice, kv_type);
  const double load_s = Now() - begin;

  const double bytes_per_second = MeasureReadBandwidth(arguments.threads);
  const double operations_per_second = quantised ? MeasurePeakInt8(ChooseIsa().value(), arguments.threads)
                                       : dtype == DType::kBF16 && device.MultipliesNatively(dtype)
                                           ? MeasurePeakBf16(arguments.threads)
                                           : MeasurePeakF32(arguments.threads);
  std::printf("%s; weights %s, %.1f MB per step; KV %s, %zu bytes per slot; read %.1f GB/s, products %.0f GOP/s\n",
              device.name().c_str(), plan.Formats().c_str(), static_cast<double>(driver.step_bytes()) * 1e-6,
              KvTypeName(kv_type), driver.kv_bytes_per_slot(), bytes_per_second * 1e-9, operations_per_second * 1e-9);
  std::printf("%-34s %10s %-8s %10s %8s  %s\n", "what", "value", "unit", "limit", "of limit", "limited by");
  Report report;
  report.Add({"open and pack the model", load_s, "s", 0, "goal <= 1 s in all"});
  if (arguments.Wants("pp")) BenchPrefill(driver, report, operations_per_second);
  if (arguments.Wants("tg")) BenchDecode(driver, report, bytes_per_second);
  if (arguments.Wants("live")) BenchLive(driver, report, bytes_per_second);
  if (arguments.Wants("h2o")) BenchH2o(driver, report);
  if (arguments.Wants("rolling")) BenchRolling(driver, report);
  if (arguments.Wants("kv_map")) BenchKvMap(driver, report);
  if (!arguments.json.empty()) report.WriteJson(arguments.json);
  return 0;
}

}  // namespace
}  // namespace hydrant

int main(int argc, char** argv) {
  hydrant::Arguments arguments;
  CLI::App app{"Speed of a model on the CPU device, without HTTP or scheduler, against the limits of the machine."};
  app.add_option("MODEL", arguments.model)->required();
  app.add_option("--threads", arguments.threads)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--dtype", arguments.dtype)
      ->check(CLI::IsMember({"auto", "float32", "bfloat16", "float16"}))
      ->capture_default_str();
  app.add_option("--kv-dtype", arguments.kv_type, "of the cache (default: as the weights)")
      ->transform(hydrant::ReadsName(hydrant::KvTypesByName()));
  app.add_option("--only", arguments.only, "pp, tg, live, h2o, rolling, kv_map")
      ->delimiter(',')
      ->check(CLI::IsMember({"pp", "tg", "live", "h2o", "rolling", "kv_map"}));
  app.add_option("--json", arguments.json, "also write the figures there");
  CLI11_PARSE(app, argc, argv);
  return hydrant::Run(arguments);
}
