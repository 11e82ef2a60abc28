#include "server/metrics/metrics.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "server/engine/engine_types.h"

namespace hydrant {
namespace {

// One sample per line of the text format; "# TYPE" lines by name.
struct Exposition {
  explicit Exposition(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("# TYPE ")) {
        const size_t space = line.find(' ', 7);
        types[line.substr(7, space - 7)] = line.substr(space + 1);
      } else if (!line.empty() && line[0] != '#') {
        const size_t space = line.rfind(' ');
        EXPECT_TRUE(samples.emplace(line.substr(0, space), std::stod(line.substr(space + 1))).second) << line;
      }
    }
  }
  // The value of the one sample of `name` with all of these labels.
  double Value(const std::string& name, const std::vector<std::string>& labels = {}) const {
    double value = -1;
    int found = 0;
    for (const auto& [series, sample] : samples) {
      if (series.substr(0, series.find('{')) != name) continue;
      bool matches = true;
      for (const std::string& label : labels) matches &= series.find(label) != std::string::npos;
      if (matches) value = sample, ++found;
    }
    EXPECT_EQ(found, 1) << name;
    return value;
  }
  std::vector<double> Bounds(const std::string& name) const {
    std::set<double> bounds;
    for (const auto& [series, sample] : samples) {
      if (!series.starts_with(name + "_bucket{")) continue;
      const size_t at = series.find("le=\"") + 4;
      const std::string bound = series.substr(at, series.find('"', at) - at);
      if (bound != "+Inf") bounds.insert(std::stod(bound));
    }
    return {bounds.begin(), bounds.end()};
  }

  std::map<std::string, std::string> types;
  std::map<std::string, double> samples;
};

MetricsOptions FewOptions() {
  MetricsOptions options;
  options.model_name = "a \"model\"";
  options.context = 4096;
  options.blocks = 100;
  options.cache_dtype = "bfloat16";
  options.weight_bytes = {{"Q4_1", 66'000'000}, {"Q8_0", 30'000'000}};
  options.policy_names = {"full", "h2o"};
  return options;
}

TEST(Metrics, EverySeriesOfTheContractIsThereAtZeroFromTheFirstScrape) {
  Metrics metrics(FewOptions());
  EngineCounters engine;
  engine.blocks_free = 100;
  const Exposition text(metrics.Render(engine, SessionCounts(), false));
  const struct {
    const char* name;
    const char* type;
    std::vector<std::string> labels;
  } series[] = {
      {"vllm:num_requests_running", "gauge", {}},
      {"vllm:num_requests_waiting", "gauge", {}},
      {"vllm:num_requests_waiting_by_reason", "gauge", {"reason=\"capacity\""}},
      {"vllm:num_requests_waiting_by_reason", "gauge", {"reason=\"deferred\""}},
      {"vllm:kv_cache_usage_perc", "gauge", {}},
      {"vllm:gpu_cache_usage_perc", "gauge", {}},
      {"vllm:prompt_tokens_total", "counter", {}},
      {"vllm:generation_tokens_total", "counter", {}},
      {"vllm:prompt_tokens_cached_total", "counter", {}},
      {"vllm:prompt_tokens_by_source_total", "counter", {"source=\"local_compute\""}},
      {"vllm:prompt_tokens_by_source_total", "counter", {"source=\"local_cache_hit\""}},
      {"vllm:prompt_tokens_by_source_total", "counter", {"source=\"external_kv_transfer\""}},
      {"vllm:prefix_cache_queries_total", "counter", {}},
      {"vllm:prefix_cache_hits_total", "counter", {}},
      {"vllm:gpu_prefix_cache_queries_total", "counter", {}},
      {"vllm:gpu_prefix_cache_hits_total", "counter", {}},
      {"vllm:num_preemptions_total", "counter", {}},
      {"vllm:spec_decode_num_drafts_total", "counter", {}},
      {"vllm:spec_decode_num_draft_tokens_total", "counter", {}},
      {"vllm:spec_decode_num_accepted_tokens_total", "counter", {}},
      {"vllm:spec_decode_num_accepted_tokens_per_pos_total", "counter", {"position=\"0\""}},
      {"vllm:spec_decode_num_accepted_tokens_per_pos_total", "counter", {"position=\"15\""}},
      {"vllm:request_success_total", "counter", {"finished_reason=\"stop\""}},
      {"vllm:request_success_total", "counter", {"finished_reason=\"length\""}},
      {"vllm:request_success_total", "counter", {"finished_reason=\"abort\""}},
      {"vllm:request_success_total", "counter", {"finished_reason=\"error\""}},
      {"vllm:request_success_total", "counter", {"finished_reason=\"repetition\""}},
      {"hydrant_kv_blocks", "gauge", {"state=\"used\""}},
      {"hydrant_kv_blocks", "gauge", {"state=\"cached\""}},
      {"hydrant_evicted_tokens_total", "counter", {"policy=\"full\""}},
      {"hydrant_evicted_tokens_total", "counter", {"policy=\"h2o\""}},
      {"hydrant_freed_blocks_total", "counter", {"cause=\"prefill\""}},
      {"hydrant_freed_blocks_total", "counter", {"cause=\"shrink\""}},
      {"hydrant_freed_blocks_total", "counter", {"cause=\"periodic\""}},
      {"hydrant_freed_blocks_total", "counter", {"cause=\"finish\""}},
      {"hydrant_freed_blocks_total", "counter", {"cause=\"cancel\""}},
      {"hydrant_shrinks_total", "counter", {}},
      {"hydrant_parks_total", "counter", {}},
      {"hydrant_restores_total", "counter", {}},
      {"hydrant_sessions", "gauge", {"state=\"busy\""}},
      {"hydrant_sessions", "gauge", {"state=\"parked\""}},
      {"hydrant_sessions", "gauge", {"state=\"cold\""}},
      {"hydrant_parked_blocks", "gauge", {}},
      {"hydrant_swaps_total", "counter", {"direction=\"out\""}},
      {"hydrant_swaps_total", "counter", {"direction=\"in\""}},
      {"hydrant_swaps_lost_total", "counter", {}},
      {"hydrant_swapped", "gauge", {}},
      {"hydrant_swapped_bytes", "gauge", {}},
      {"hydrant_parks_lost_total", "counter", {}},
      {"hydrant_parks_moved_total", "counter", {}},
      {"hydrant_connections_refused_total", "counter", {}},
      {"hydrant_stalls_total", "counter", {}},
      {"hydrant_steps_lost_total", "counter", {}},
      {"hydrant_weights_read_bytes_total", "counter", {}},
      {"hydrant_weights_wait_seconds_total", "counter", {}},
      {"hydrant_requests_total", "counter", {"tenant=\"default\""}},
      {"hydrant_prompt_tokens_total", "counter", {"tenant=\"default\""}},
      {"hydrant_generation_tokens_total", "counter", {"tenant=\"default\""}},
      {"hydrant_service_total", "counter", {"tenant=\"default\""}},
      {"hydrant_rejected_total", "counter", {"tenant=\"default\"", "reason=\"invalid\""}},
      {"hydrant_rejected_total", "counter", {"tenant=\"default\"", "reason=\"overloaded\""}},
      {"hydrant_rejected_total", "counter", {"tenant=\"default\"", "reason=\"draining\""}},
      {"hydrant_rejected_total", "counter", {"tenant=\"default\"", "reason=\"concurrency\""}},
      {"hydrant_rejected_total", "counter", {"tenant=\"default\"", "reason=\"rpm\""}},
      {"hydrant_rejected_total", "counter", {"tenant=\"default\"", "reason=\"tpm\""}},
      {"hydrant_rejected_total", "counter", {"tenant=\"default\"", "reason=\"queue\""}},
      {"hydrant_rejected_total", "counter", {"tenant=\"default\"", "reason=\"sessions\""}},
      {"hydrant_rejected_total", "counter", {"tenant=\"default\"", "reason=\"timeout\""}},
      {"hydrant_rejected_total", "counter", {"tenant=\"default\"", "reason=\"queue_timeout\""}},
      {"hydrant_auth_failures_total", "counter", {}},
      {"hydrant_live_slots", "gauge", {"tenant=\"default\""}},
      {"hydrant_blocks", "gauge", {"tenant=\"default\""}},
      {"hydrant_reserved_blocks", "gauge", {"tenant=\"default\""}},
      {"hydrant_logical_tokens", "gauge", {"tenant=\"default\""}},
      {"hydrant_running", "gauge", {"tenant=\"default\""}},
      {"hydrant_waiting", "gauge", {"tenant=\"default\"", "reason=\"capacity\""}},
      {"hydrant_waiting", "gauge", {"tenant=\"default\"", "reason=\"deferred\""}},
      {"hydrant_freed_blocks_total", "counter", {"cause=\"shared\""}},
      {"hydrant_freed_blocks_total", "counter", {"cause=\"swap\""}},
      {"hydrant_prefix_snapshots", "gauge", {}},
      {"hydrant_prefix_snapshot_bytes", "gauge", {}},
  };
  for (const auto& expected : series) {
    EXPECT_EQ(text.Value(expected.name, expected.labels), 0) << expected.name;
    EXPECT_EQ(text.types.at(expected.name), expected.type) << expected.name;
  }
  EXPECT_EQ(text.Value("hydrant_kv_blocks", {"state=\"free\""}), 100);
  EXPECT_EQ(text.Value("hydrant_weight_bytes", {"format=\"Q4_1\""}), 66e6);
  EXPECT_EQ(text.Value("hydrant_weight_bytes", {"format=\"Q8_0\""}), 30e6);
  EXPECT_EQ(text.Value("vllm:cache_config_info",
                       {"block_size=\"16\"", "num_gpu_blocks=\"100\"", "engine=\"0\"", "cache_dtype=\"bfloat16\""}),
            1);
}

TEST(Metrics, EveryHistogramHasVllmsBuckets) {
  Metrics metrics(FewOptions());
  const Exposition text(metrics.Render(EngineCounters(), SessionCounts(), false));
  using Bounds = std::vector<double>;
  const Bounds first = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                        1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
  const Bounds token = {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
  const Bounds request = {.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
  const Bounds tokens = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000};
  const Bounds step = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
  const std::map<std::string, Bounds> histograms = {
      {"time_to_first_token_seconds", first},
      {"inter_token_latency_seconds", token},
      {"time_per_output_token_seconds", token},
      {"request_time_per_output_token_seconds", token},
      {"e2e_request_latency_seconds", request},
      {"request_queue_time_seconds", request},
      {"request_inference_time_seconds", request},
      {"request_prefill_time_seconds", request},
      {"request_decode_time_seconds", request},
      {"request_prompt_tokens", tokens},
      {"request_generation_tokens", tokens},
      {"request_max_num_generation_tokens", tokens},
      {"request_params_max_tokens", tokens},
      {"request_prefill_kv_computed_tokens", tokens},
      {"iteration_tokens_total", step},
      {"request_params_n", {1, 2, 5, 10, 20}},
  };
  for (const auto& [name, bounds] : histograms) {
    EXPECT_EQ(text.Bounds("vllm:" + name), bounds) << name;
    EXPECT_EQ(text.Value("vllm:" + name + "_count"), 0) << name;
    EXPECT_EQ(text.types.at("vllm:" + name), "histogram") << name;
  }
  for (const char* name : {"hydrant_queue_seconds", "hydrant_ttft_seconds", "hydrant_itl_seconds"}) {
    EXPECT_EQ(text.Value(std::string(name) + "_count", {"tenant=\"default\""}), 0);
    EXPECT_EQ(text.Bounds(name).front(), .0005);
  }
  for (const char* phase : {"plan", "device", "commit", "move"}) {
    EXPECT_EQ(text.Value("hydrant_step_seconds_count", {std::string("phase=\"") + phase + '"'}), 0);
  }
}

TEST(Metrics, LabelsOfVllmsSeriesAreModelAndEngineOnly) {
  Metrics metrics(FewOptions());
  for (const auto& [series, value] : Exposition(metrics.Render(EngineCounters(), SessionCounts(), false)).samples) {
    if (!series.starts_with("vllm:") || series.starts_with("vllm:cache_config_info")) continue;
    EXPECT_NE(series.find("engine=\"0\""), std::string::npos) << series;
    EXPECT_NE(series.find(R"(model_name="a \"model\"")"), std::string::npos) << series;
    EXPECT_EQ(series.find("tenant"), std::string::npos) << series;
  }
}

TEST(Metrics, TheEnginesNumbersAreThoseOfTheSnapshotAndCountersNeverFall) {
  Metrics metrics(FewOptions());
  EngineCounters engine;
  engine.running = 3;
  engine.waiting = 2;
  engine.blocks_free = 25;
  engine.blocks_used = 50;
  engine.blocks_cached = 25;
  engine.tenants = {{.running = 3,
                     .waiting = 2,
                     .waiting_deferred = 1,
                     .blocks = 50,
                     .reserved_blocks = 60,
                     .live_slots = 700,
                     .logical_tokens = 1900,
                     .charged = 120,
                     .prompt_tokens = 100,
                     .generated_tokens = 10}};
  engine.scheduler.prompt_tokens = 100;
  engine.scheduler.generated_tokens = 10;
  engine.scheduler.freed_blocks[static_cast<size_t>(FreeCause::kPrefill)] = 109;
  engine.evicted_tokens[1] = 1744;
  engine.scheduler.shrinks = 3;
  for (int scrape = 0; scrape < 2; ++scrape) {
    const Exposition text(metrics.Render(engine, SessionCounts(), false));
    EXPECT_EQ(text.Value("vllm:num_requests_running"), 3);
    EXPECT_EQ(text.Value("vllm:num_requests_waiting"), 2);
    EXPECT_EQ(text.Value("vllm:num_requests_waiting_by_reason", {"capacity"}), 1);
    EXPECT_EQ(text.Value("vllm:num_requests_waiting_by_reason", {"deferred"}), 1);
    EXPECT_EQ(text.Value("vllm:kv_cache_usage_perc"), 0.5) << "in use, not cached";
    EXPECT_EQ(text.Value("vllm:gpu_cache_usage_perc"), 0.5);
    EXPECT_EQ(text.Value("hydrant_live_slots"), 700);
    EXPECT_EQ(text.Value("hydrant_logical_tokens"), 1900);
    EXPECT_EQ(text.Value("hydrant_running"), 3);
    EXPECT_EQ(text.Value("hydrant_waiting", {"capacity"}), 1);
    EXPECT_EQ(text.Value("hydrant_waiting", {"deferred"}), 1);
    EXPECT_EQ(text.Value("hydrant_blocks"), 50);
    EXPECT_EQ(text.Value("hydrant_reserved_blocks"), 60);
    EXPECT_EQ(text.Value("vllm:prompt_tokens_total"), 100) << "a second scrape adds nothing";
    EXPECT_EQ(text.Value("vllm:prompt_tokens_by_source_total", {"local_compute"}), 100);
    EXPECT_EQ(text.Value("hydrant_service_total"), 120);
    EXPECT_EQ(text.Value("hydrant_prompt_tokens_total"), 100);
    EXPECT_EQ(text.Value("hydrant_generation_tokens_total"), 10);
    EXPECT_EQ(text.Value("hydrant_freed_blocks_total", {"prefill"}), 109);
    EXPECT_EQ(text.Value("hydrant_evicted_tokens_total", {"h2o"}), 1744);
    EXPECT_EQ(text.Value("hydrant_shrinks_total"), 3);
  }
}

// As vLLM has it: what has no token comes with its end, and no time passes after it.
TEST(Metrics, WhatHasNoTokenComesWithItsEnd) {
  Metrics metrics(FewOptions());
  SequenceReport embedding;
  embedding.reason = FinishReason::kLength;
  embedding.prompt_tokens = 30;
  embedding.times.arrival_us = 0;
  embedding.times.admitted_us = 1'000'000;
  embedding.ended_us = 3'000'000;
  metrics.ObserveSequence(0, embedding);
  embedding.reason = FinishReason::kAbort;
  metrics.ObserveSequence(0, embedding);
  const Exposition text(metrics.Render(EngineCounters(), SessionCounts(), false));
  const std::map<std::string, double> sums = {{"vllm:request_prefill_kv_computed_tokens", 30},
                                              {"vllm:request_prefill_time_seconds", 2},
                                              {"vllm:request_inference_time_seconds", 2},
                                              {"vllm:request_decode_time_seconds", 0}};
  for (const auto& [name, sum] : sums) {
    EXPECT_DOUBLE_EQ(text.Value(name + "_sum"), sum) << name;
    EXPECT_EQ(text.Value(name + "_count"), 1) << name;
  }
}

TEST(Metrics, ASequencesTimesFallIntoTheirHistograms) {
  Metrics metrics(FewOptions());
  SequenceReport report;
  report.reason = FinishReason::kLength;
  report.prompt_tokens = 30;
  report.generated = 5;
  report.max_tokens = 5;
  report.times.arrival_us = 0;
  report.times.admitted_us = 1'000'000;
  report.times.first_token_us = 3'000'000;
  report.times.last_token_us = 7'000'000;
  report.ended_us = 8'000'000;
  metrics.ObserveSequence(0, report);
  metrics.ObserveRequest(2, 5);
  metrics.ObserveFirstToken(0, 3'000'000);
  metrics.ObserveTokenGap(0, 1'000'000);
  metrics.ObserveStep(17, 10, 20, 30, 40);
  metrics.CountRequest(0);
  metrics.CountReject(0, RejectReason::kOverloaded);
  SequenceReport waiting;  // cancelled in the queue
  waiting.reason = FinishReason::kAbort;
  waiting.times.arrival_us = 0;
  waiting.ended_us = 1'000'000;
  metrics.ObserveSequence(0, waiting);

  const Exposition text(metrics.Render(EngineCounters(), SessionCounts(), false));
  const std::map<std::string, double> sums = {
      {"vllm:request_queue_time_seconds", 1},
      {"vllm:request_prefill_time_seconds", 2},
      {"vllm:request_decode_time_seconds", 4},
      {"vllm:request_inference_time_seconds", 6},
      {"vllm:e2e_request_latency_seconds", 9},
      {"vllm:request_time_per_output_token_seconds", 1},
      {"vllm:request_prompt_tokens", 30},
      {"vllm:request_generation_tokens", 5},
      {"vllm:request_params_max_tokens", 5},
      {"vllm:request_params_n", 2},
      {"vllm:request_max_num_generation_tokens", 5},
      {"vllm:request_prefill_kv_computed_tokens", 30},
      {"vllm:time_to_first_token_seconds", 3},
      {"vllm:inter_token_latency_seconds", 1},
      {"vllm:time_per_output_token_seconds", 1},
      {"vllm:iteration_tokens_total", 17},
      {"hydrant_queue_seconds", 1},
      {"hydrant_ttft_seconds", 3},
      {"hydrant_itl_seconds", 1},
      {"hydrant_batch_tokens", 17},
  };
  for (const auto& [name, sum] : sums) EXPECT_DOUBLE_EQ(text.Value(name + "_sum"), sum) << name;
  EXPECT_EQ(text.Value("vllm:request_success_total", {"length"}), 1);
  EXPECT_EQ(text.Value("vllm:request_success_total", {"abort"}), 1);
  EXPECT_EQ(text.Value("hydrant_requests_total"), 1);
  EXPECT_EQ(text.Value("hydrant_rejected_total", {"overloaded"}), 1);
}

// Three histograms of 15 bounds, +Inf, sum and count; ten reasons of a refusal, twice; eleven numbers.
TEST(Metrics, ATenantCosts85Series) {
  Metrics metrics(FewOptions());
  const size_t before = Exposition(metrics.Render(EngineCounters(), SessionCounts(), false)).samples.size();
  metrics.AddTenant("another");
  const size_t after = Exposition(metrics.Render(EngineCounters(), SessionCounts(), false)).samples.size();
  EXPECT_EQ(after - before, 85u);
}

TEST(Metrics, ATenantsNumbersAreItsOwn) {
  MetricsOptions options = FewOptions();
  options.tenant_names = {"a", "b"};
  Metrics metrics(options);
  metrics.AddTenant("c");
  metrics.CountRequest(0);
  metrics.CountRequest(2);
  metrics.CountRequest(2);
  metrics.CountReject(1, RejectReason::kTpm);
  metrics.CountReject(1, RejectReason::kTpm, /*generates=*/false);
  metrics.ObserveFirstToken(2, 3'000'000);
  EngineCounters engine;
  engine.tenants = {{.blocks = 1}, {.blocks = 2, .charged = 0.5}, {.blocks = 3}};
  const Exposition text(metrics.Render(engine, SessionCounts(), false));
  EXPECT_EQ(text.Value("hydrant_requests_total", {"tenant=\"a\""}), 1);
  EXPECT_EQ(text.Value("hydrant_requests_total", {"tenant=\"b\""}), 0);
  EXPECT_EQ(text.Value("hydrant_requests_total", {"tenant=\"c\""}), 2);
  EXPECT_EQ(text.Value("hydrant_rejected_total", {"tenant=\"b\"", "reason=\"tpm\""}), 1);
  EXPECT_EQ(text.Value("hydrant_work_rejected_total", {"tenant=\"b\"", "reason=\"tpm\""}), 1);
  EXPECT_EQ(metrics.Rejected(1, RejectReason::kTpm), 2u);
  EXPECT_EQ(text.Value("hydrant_ttft_seconds_count", {"tenant=\"c\""}), 1);
  EXPECT_EQ(text.Value("hydrant_ttft_seconds_count", {"tenant=\"a\""}), 0);
  EXPECT_EQ(text.Value("vllm:time_to_first_token_seconds_count"), 1) << "all tenants, and no label of theirs";
  EXPECT_EQ(text.Value("hydrant_blocks", {"tenant=\"c\""}), 3);
  EXPECT_EQ(text.Value("hydrant_service_total", {"tenant=\"b\""}), 0.5);
}

TEST(Metrics, SequencesThatStepAsideAreCountedAndWeighed) {
  MetricsOptions options = FewOptions();
  options.kv_block_bytes = 1000;
  Metrics metrics(options);
  EngineCounters engine;
  engine.swapped = 2;
  engine.swapped_blocks = 30;
  engine.scheduler.swaps_out = 9;
  engine.scheduler.swaps_in = 7;
  engine.scheduler.swaps_lost = 1;
  const Exposition text(metrics.Render(engine, SessionCounts(), false));
  EXPECT_EQ(text.Value("vllm:num_preemptions_total"), 9);
  EXPECT_EQ(text.Value("hydrant_swaps_total", {"direction=\"out\""}), 9);
  EXPECT_EQ(text.Value("hydrant_swaps_total", {"direction=\"in\""}), 7);
  EXPECT_EQ(text.Value("hydrant_swaps_lost_total"), 1);
  EXPECT_EQ(text.Value("hydrant_swapped"), 2);
  EXPECT_EQ(text.Value("hydrant_swapped_bytes"), 30'000);
}

TEST(Metrics, SessionsAreCountedByState) {
  Metrics metrics(FewOptions());
  EngineCounters engine;
  engine.parked_blocks = 12;
  engine.parked_lost = 2;
  engine.scheduler.parks = 9;
  engine.scheduler.restores = 7;
  engine.scheduler.restored_tokens = 300;
  engine.scheduler.prefix_hits = 50;
  engine.scheduler.prompt_tokens = 40;
  const Exposition text(metrics.Render(engine, {.busy = 1, .parked = 2, .cold = 3}, false));
  EXPECT_EQ(text.Value("hydrant_sessions", {"state=\"busy\""}), 1);
  EXPECT_EQ(text.Value("hydrant_sessions", {"state=\"parked\""}), 2);
  EXPECT_EQ(text.Value("hydrant_sessions", {"state=\"cold\""}), 3);
  EXPECT_EQ(text.Value("hydrant_parked_blocks"), 12);
  EXPECT_EQ(text.Value("hydrant_parks_total"), 9);
  EXPECT_EQ(text.Value("hydrant_parks_lost_total"), 2);
  EXPECT_EQ(text.Value("hydrant_restores_total"), 7);
  EXPECT_EQ(text.Value("vllm:prompt_tokens_total"), 390);
  EXPECT_EQ(text.Value("vllm:prompt_tokens_cached_total"), 350);
  EXPECT_EQ(text.Value("vllm:prompt_tokens_by_source_total", {"source=\"external_kv_transfer\""}), 300);
}

TEST(Metrics, AStallIsCountedWhileItLastsAndWhenItIsOver) {
  Metrics metrics(FewOptions());
  EngineCounters engine;
  const auto stalls = [&](bool stalled) {
    return Exposition(metrics.Render(engine, SessionCounts(), stalled)).Value("hydrant_stalls_total");
  };
  EXPECT_EQ(stalls(false), 0);
  EXPECT_EQ(stalls(true), 1);
  engine.stalls = 1;
  EXPECT_EQ(stalls(false), 1) << "the same one";
  engine.stalls = 3;
  EXPECT_EQ(stalls(false), 3) << "one nobody saw";
  EXPECT_EQ(stalls(true), 4);
}

TEST(Metrics, TheProcessIsDescribed) {
  Metrics metrics(FewOptions());
  const Exposition text(metrics.Render(EngineCounters(), SessionCounts(), false));
  EXPECT_GT(text.Value("process_open_fds"), 2);
  EXPECT_GT(text.Value("process_max_fds"), text.Value("process_open_fds"));
  EXPECT_GT(text.Value("process_virtual_memory_bytes"), text.Value("process_resident_memory_bytes"));
  EXPECT_GT(text.Value("process_resident_memory_bytes"), 1 << 20);
  EXPECT_GE(text.Value("process_cpu_seconds_total"), 0);
  EXPECT_GT(text.Value("process_start_time_seconds"), 1e9);
}

}  // namespace
}  // namespace hydrant
