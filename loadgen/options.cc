#include "loadgen/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "api/wire/json_writer.h"
#include "api/wire/nearest_name.h"
#include "loadgen/load/dataset_files.h"
#include "loadgen/version.h"
#include "nlohmann/json.hpp"

namespace hydrant {
namespace {

// What the flags set, before it is checked as a whole.
struct Raw {
  std::string base_url, compare_url, host = "127.0.0.1";
  int32_t port = 8000;
  std::vector<std::string> headers, metadata, goodput, tenants;
  std::string tenants_file, trace, dataset = "random", path, token_ids;
  std::string request_rate = "inf", ramp;
  std::optional<double> ramp_start, ramp_end;
  std::string percentiles = "50,90,95,99";
  std::string input_len, output_len;
  std::string random_input = "1024", random_output = "128", sharegpt_output;
  double random_range = 0;
  int32_t random_prefix = 0;
  int32_t sonnet_input = 550, sonnet_output = 150, sonnet_prefix = 200;
  int32_t repetition_prefix = 256, repetition_suffix = 256, repetition_prefixes = 10, repetition_output = 128;
  std::string turns, chat_input = "64", chat_output = "128", think = "0";
  int32_t chat_prefix = 0;
  size_t num_prompts = 0;
  std::optional<double> temperature, top_p, min_p, frequency_penalty, presence_penalty, repetition_penalty;
  std::optional<int32_t> top_k;
  bool ignore_eos = false, no_progress = false;
};

constexpr size_t kPromptsDefault = 1000;  // vLLM's

std::string Plain(double value) { return std::isinf(value) ? "inf" : absl::StrCat(value); }

void AddServerFlags(CLI::App& app, Options& options, Raw& raw) {
  const char* group = "Server";
  app.add_option("--base-url", raw.base_url, "http(s)://HOST:PORT, with or without /v1, in place of --host and --port")
      ->group(group);
  app.add_option("--host", raw.host, "")->group(group)->capture_default_str();
  app.add_option("--port", raw.port, "")->group(group)->capture_default_str()->check(CLI::Range(1, 65535));
  app.add_option("--backend", options.backend, "openai (completions) or openai-chat")
      ->group(group)
      ->capture_default_str()
      ->check(CLI::IsMember({"openai", "openai-chat"}));
  app.add_option("--endpoint", options.endpoint, "path (default: /v1/completions or /v1/chat/completions)")
      ->group(group);
  app.add_option("--model", options.model, "name in requests (default: the server's first)")->group(group);
  app.add_option("--api-key", options.key, "bearer token (or OPENAI_API_KEY)")->group(group);
  app.add_option("--header", raw.headers, "KEY=VALUE … for every request")->group(group);
  app.add_option("--request-id-prefix", options.request_id_prefix, "of X-Request-Id (default: bench-SEED-)")
      ->group(group);
  app.add_flag("--session-ids", options.session_ids, "X-Session-ID, one for each conversation")->group(group);
  app.add_flag("--insecure", options.insecure, "do not check the server's certificate")->group(group);
  app.add_option("--ready-check-timeout-sec", options.ready_timeout_s, "wait this long for the server")
      ->group(group)
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  app.add_option("--request-timeout-s", options.request_timeout_s, "for one request, first to last byte")
      ->group(group)
      ->check(CLI::Range(0.01, 86400.0))
      ->capture_default_str();
}

void AddArrivalFlags(CLI::App& app, Options& options, Raw& raw) {
  const char* group = "When";
  app.add_option("--request-rate", raw.request_rate, "conversations per second; inf: all at once")
      ->group(group)
      ->capture_default_str();
  app.add_option("--burstiness", options.arrivals.burstiness,
                 "1: Poisson; less: burstier; more: evener; inf: constant gaps")
      ->group(group)
      ->capture_default_str();
  app.add_option("--num-prompts", raw.num_prompts, "conversations (default: 1000, or with --duration any number)")
      ->group(group)
      ->check(CLI::Range(1, 1'000'000'000));
  app.add_option("--duration", options.arrivals.duration_s, "seconds in which conversations begin")->group(group);
  app.add_option("--max-concurrency", options.concurrency_max, "most at a time; with rate inf a closed loop of users")
      ->group(group)
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--ramp-up-strategy", raw.ramp,
                 "linear or exponential: the rate changes over --duration, or else over the conversations")
      ->group(group)
      ->check(CLI::IsMember({"linear", "exponential"}));
  app.add_option("--ramp-up-start-rps", raw.ramp_start, "rate at first; 0: linear with --duration only")->group(group);
  app.add_option("--ramp-up-end-rps", raw.ramp_end, "rate at last")->group(group);
  app.add_option("--ramp-up-users-s", options.arrivals.users_ramp_s, "closed loop: seconds until all users are there")
      ->group(group)
      ->check(CLI::Range(0.0, 86400.0));
  app.add_option("--arrival-trace", raw.trace, "file of arrivals, and of lengths if it has them")->group(group);
  app.add_option("--num-warmups", options.warmups, "conversations before, not counted")
      ->group(group)
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--seed", options.workload.seed, "the same seed is the same load")
      ->group(group)
      ->capture_default_str();
}

void AddDatasetFlags(CLI::App& app, Raw& raw) {
  const char* group =
      "What (LEN: tokens, or uniform:LOW:HIGH, normal:MEAN:SD, lognormal:MEDIAN:SIGMA, exponential:MEAN)";
  const auto text = [&](const char* name, std::string& value, const char* help) {
    app.add_option(name, value, help)->group(group)->capture_default_str();
  };
  const auto number = [&](const char* name, int32_t& value, const char* help, int32_t min = 0) {
    app.add_option(name, value, help)->group(group)->capture_default_str()->check(CLI::Range(min, 1 << 24));
  };
  app.add_option("--dataset-name", raw.dataset, "random, sharegpt, sonnet, prefix_repetition or multi_turn")
      ->group(group)
      ->capture_default_str()
      ->check(CLI::IsMember({"random", "sharegpt", "sonnet", "prefix_repetition", "multi_turn"}));
  text("--dataset-path", raw.path, "file of sharegpt and sonnet");
  text("--input-len", raw.input_len, "LEN of prompts, whatever the dataset");
  text("--output-len", raw.output_len, "LEN of answers, whatever the dataset");
  text("--random-input-len", raw.random_input, "LEN");
  text("--random-output-len", raw.random_output, "LEN");
  app.add_option("--random-range-ratio", raw.random_range, "lengths vary by this share around theirs")
      ->group(group)
      ->capture_default_str()
      ->check(CLI::Range(0.0, 0.999));
  number("--random-prefix-len", raw.random_prefix, "tokens that all prompts begin with");
  text("--random-token-ids", raw.token_ids, "LOW:HIGH: prompts of these token ids, not of words; exact lengths");
  text("--sharegpt-output-len", raw.sharegpt_output, "LEN (default: as long as the file's answers)");
  number("--sonnet-input-len", raw.sonnet_input, "of which --sonnet-prefix-len are shared");
  number("--sonnet-output-len", raw.sonnet_output, "");
  number("--sonnet-prefix-len", raw.sonnet_prefix, "");
  number("--prefix-repetition-prefix-len", raw.repetition_prefix, "");
  number("--prefix-repetition-suffix-len", raw.repetition_suffix, "");
  number("--prefix-repetition-num-prefixes", raw.repetition_prefixes, "", 1);
  number("--prefix-repetition-output-len", raw.repetition_output, "");
  text("--num-turns", raw.turns, "LEN: turns of a conversation (multi_turn: 3, sharegpt: 1)");
  text("--multi-turn-input-len", raw.chat_input, "LEN of what a user says");
  text("--multi-turn-output-len", raw.chat_output, "LEN of an answer");
  number("--multi-turn-prefix-len", raw.chat_prefix, "tokens of the system message all share");
  text("--think-time-s", raw.think, "LEN in seconds between an answer and the next turn");
  app.add_option("--tenant", raw.tenants, "name=…,key=… or key_env=…,weight=…,load=…; once for each")
      ->group(group)
      ->allow_extra_args(false);
  text("--tenants-file", raw.tenants_file, "the same as JSON");
}

void AddSamplingFlags(CLI::App& app, Options& options, Raw& raw) {
  const char* group = "Sampling";
  app.add_flag("--ignore-eos", raw.ignore_eos, "answers as long as asked for")->group(group);
  app.add_option("--temperature", raw.temperature, "")->group(group);
  app.add_option("--top-p", raw.top_p, "")->group(group);
  app.add_option("--top-k", raw.top_k, "")->group(group);
  app.add_option("--min-p", raw.min_p, "")->group(group);
  app.add_option("--frequency-penalty", raw.frequency_penalty, "")->group(group);
  app.add_option("--presence-penalty", raw.presence_penalty, "")->group(group);
  app.add_option("--repetition-penalty", raw.repetition_penalty, "")->group(group);
  app.add_option("--extra-body", options.extra_json, "JSON object of further members of each request")->group(group);
}

void AddReportFlags(CLI::App& app, Options& options, Raw& raw) {
  const char* group = "Report";
  app.add_option("--goodput", raw.goodput, "ttft:MS tpot:MS e2el:MS, what a good request keeps to")
      ->group(group)
      ->expected(1, 3);
  app.add_option("--metric-percentiles", raw.percentiles, "")->group(group)->capture_default_str();
  app.add_option("--label", options.label, "title (default: the backend)")->group(group);
  app.add_option("--metadata", raw.metadata, "KEY=VALUE … kept in the JSON")->group(group);
  app.add_flag("--save-result", options.save_result, "write JSON")->group(group);
  app.add_flag("--save-detailed", options.save_detailed, "with the times of every request")->group(group);
  app.add_option("--result-dir", options.result_dir, "")->group(group);
  app.add_option("--result-filename", options.result_filename, "implies --save-result")->group(group);
  app.add_option("--html", options.html_path, "write a report with plots here")->group(group);
  app.add_option("--lag-limit-ms", options.summary.lag_limit_ms, "a later client says that it did not keep up")
      ->group(group)
      ->check(CLI::Range(0.1, 1e6))
      ->capture_default_str();
  app.add_flag("--disable-tqdm,--no-progress", raw.no_progress, "no line a second while it runs")->group(group);
  app.add_option("--compare-url", raw.compare_url, "a second server: the same load on both in turn, and ratios")
      ->group(group);
  app.add_option("--compare-model", options.compare_model, "its model")->group(group);
  app.add_option("--compare-rounds", options.compare_rounds, "in how many rounds")
      ->group(group)
      ->capture_default_str()
      ->check(CLI::Range(2, 1000));
}

// The rest checks what the flags mean together. Each function returns an error that names the flag, or nothing.

// Text that goes into a request's head: a line end would begin another field. Keys are not shown.
std::string CheckHeadText(const char* flag, std::string_view text) {
  const bool wrong = std::any_of(text.begin(), text.end(), [](char c) { return absl::ascii_iscntrl(c); });
  return wrong ? absl::StrCat(flag, ": must not have line ends or other control characters") : "";
}

std::string SplitPairs(const std::vector<std::string>& texts, const char* flag,
                       std::vector<std::pair<std::string, std::string>>* pairs) {
  for (const std::string& text : texts) {
    const size_t sign = text.find('=');
    if (sign == std::string::npos || sign == 0) return absl::StrCat(flag, ": must be KEY=VALUE");
    if (const std::string wrong = CheckHeadText(flag, text); !wrong.empty()) return wrong;
    pairs->emplace_back(text.substr(0, sign), text.substr(sign + 1));
  }
  return "";
}

// OpenAI's clients have /v1 in the base URL, vLLM's benchmark in the endpoint: it is taken off the URL.
std::optional<Url> ReadUrl(const std::string& text, bool* had_v1) {
  std::optional<Url> url = ParseUrl(text);
  *had_v1 = url.has_value() && url->path.ends_with("/v1");
  if (*had_v1) url->path.resize(url->path.size() - 3);
  return url;
}

std::string FinishUrls(const Raw& raw, Options* options) {
  const bool v6 = raw.host.find(':') != std::string::npos && raw.host.front() != '[';
  const std::string host = v6 ? absl::StrCat("[", raw.host, "]") : raw.host;
  bool had_v1 = false;
  std::optional<Url> url =
      ReadUrl(raw.base_url.empty() ? absl::StrCat("http://", host, ":", raw.port) : raw.base_url, &had_v1);
  if (!url.has_value()) {
    return raw.base_url.empty() ? "--host: must be a name or an address"
                                : "--base-url: must be http://HOST:PORT or https://HOST:PORT";
  }
  options->base_url = *std::move(url);
  if (options->endpoint.empty()) options->endpoint = options->chat() ? "/v1/chat/completions" : "/v1/completions";
  if (options->endpoint.front() != '/' || options->endpoint.find(' ') != std::string::npos) {
    return "--endpoint: must be a path";
  }
  if (const std::string wrong = CheckHeadText("--endpoint", options->endpoint); !wrong.empty()) return wrong;
  if (had_v1 && !options->endpoint.starts_with("/v1/")) options->endpoint.insert(0, "/v1");
  if (raw.compare_url.empty()) return "";
  options->compare_url = ReadUrl(raw.compare_url, &had_v1);
  return options->compare_url.has_value() ? "" : "--compare-url: must be http://HOST:PORT or https://HOST:PORT";
}

std::string FinishServer(const Raw& raw, Options* options) {
  if (const std::string wrong = FinishUrls(raw, options); !wrong.empty()) return wrong;
  if (!IsValidUtf8(options->model)) return "--model: must be UTF-8";
  if (!IsValidUtf8(options->compare_model)) return "--compare-model: must be UTF-8";
  std::string wrong = SplitPairs(raw.headers, "--header", &options->fields);
  if (wrong.empty()) wrong = SplitPairs(raw.metadata, "--metadata", &options->metadata);
  if (wrong.empty()) wrong = CheckHeadText("--api-key", options->key);
  const char* key = std::getenv("OPENAI_API_KEY");
  if (options->key.empty() && key != nullptr) {
    options->key = key;
    if (wrong.empty()) wrong = CheckHeadText("OPENAI_API_KEY", options->key);
  }
  if (wrong.empty()) wrong = CheckHeadText("--request-id-prefix", options->request_id_prefix);
  if (options->request_id_prefix.empty())
    options->request_id_prefix = absl::StrCat("bench-", options->workload.seed, "-");
  if (options->label.empty()) options->label = options->backend;
  return wrong;
}

std::string FinishRamp(const Raw& raw, ArrivalSpec* arrivals) {
  if (raw.ramp.empty()) {
    if (raw.ramp_start.has_value()) return "--ramp-up-start-rps: needs --ramp-up-strategy";
    return raw.ramp_end.has_value() ? "--ramp-up-end-rps: needs --ramp-up-strategy" : "";
  }
  arrivals->ramp = raw.ramp == "linear" ? Ramp::kLinear : Ramp::kExponential;
  arrivals->ramp_start = raw.ramp_start.value_or(-1);
  arrivals->ramp_end = raw.ramp_end.value_or(-1);
  if (!std::isinf(arrivals->rate)) return "--request-rate: not with --ramp-up-strategy";
  const bool from_nothing = arrivals->ramp == Ramp::kLinear && !std::isinf(arrivals->duration_s);
  if (!(arrivals->ramp_start > 0 || (arrivals->ramp_start == 0 && from_nothing)) || arrivals->ramp_start > 1e9) {
    return "--ramp-up-start-rps: must be given and above 0; a linear ramp over --duration may start at 0";
  }
  if (!(arrivals->ramp_end > 0 && arrivals->ramp_end <= 1e9)) return "--ramp-up-end-rps: must be given and above 0";
  return "";
}

std::string FinishArrivals(const Raw& raw, Options* options) {
  ArrivalSpec& arrivals = options->arrivals;
  if (!absl::SimpleAtod(raw.request_rate, &arrivals.rate) || !(arrivals.rate > 0)) {
    return "--request-rate: must be a number above 0, or inf";
  }
  if (!(arrivals.burstiness > 0)) return "--burstiness: must be above 0";
  if (!(arrivals.duration_s > 0)) return "--duration: must be above 0";
  if (const std::string wrong = FinishRamp(raw, &arrivals); !wrong.empty()) return wrong;
  arrivals.count = raw.num_prompts;
  if (arrivals.count == 0 && std::isinf(arrivals.duration_s) && raw.trace.empty()) arrivals.count = kPromptsDefault;
  const bool all_at_once = std::isinf(arrivals.rate) && arrivals.ramp == Ramp::kNone;
  if (arrivals.count == 0 && all_at_once && raw.trace.empty() && options->concurrency_max == 0) {
    return "--duration: with no rate and no --max-concurrency there is no end to what would come at once";
  }
  if (arrivals.users_ramp_s > 0 && !(all_at_once && options->concurrency_max > 0)) {
    return "--ramp-up-users-s: needs a closed loop, --max-concurrency without --request-rate";
  }
  arrivals.users = options->concurrency_max;
  arrivals.seed = options->workload.seed;
  if (raw.trace.empty()) return "";
  absl::StatusOr<Trace> trace = ReadTrace(raw.trace);
  if (!trace.ok()) return absl::StrCat("--arrival-trace: ", std::string(trace.status().message()));
  if (arrivals.ramp != Ramp::kNone || !std::isinf(arrivals.rate)) {
    return "--arrival-trace: not with --request-rate or --ramp-up-strategy";
  }
  arrivals.trace = std::move(trace->arrivals_s);
  options->workload.lengths = std::move(trace->lengths);
  return "";
}

// A flag's LEN, if it has one.
std::string ReadLength(const char* flag, const std::string& text, std::optional<Distribution>* length) {
  if (text.empty()) return "";
  *length = Distribution::Parse(text);
  return length->has_value() ? ""
                             : absl::StrCat(flag, ": must be a number or uniform:LOW:HIGH and the like, see --help");
}

std::string FinishTokenIds(const std::string& text, WorkloadSpec* workload) {
  if (text.empty()) return "";
  const std::pair<std::string, std::string> ends = absl::StrSplit(text, absl::MaxSplits(':', 1));
  std::pair<int32_t, int32_t> range;
  if (!absl::SimpleAtoi(ends.first, &range.first) || !absl::SimpleAtoi(ends.second, &range.second) || range.first < 0 ||
      range.second <= range.first) {
    return "--random-token-ids: must be LOW:HIGH";
  }
  workload->token_ids = range;
  return "";
}

// Which flags a dataset listens to.
std::string FinishDataset(const Raw& raw, Options* options) {
  WorkloadSpec& spec = options->workload;
  std::optional<Distribution> input, output, turns, think;
  const auto range = [&](std::optional<Distribution>* length) {
    if (raw.random_range > 0 && length->has_value() && (*length)->fixed()) {
      *length = Distribution::Around((*length)->first(), raw.random_range);
    }
  };
  std::string wrong;
  const auto read = [&](const char* flag, const std::string& text, std::optional<Distribution>* length) {
    if (wrong.empty()) wrong = ReadLength(flag, text, length);
  };
  if (raw.dataset == "random") {
    read("--random-input-len", raw.random_input, &input);
    read("--random-output-len", raw.random_output, &output);
    range(&input);
    range(&output);
    spec.prefix_tokens = raw.random_prefix;
  } else if (raw.dataset == "sharegpt") {
    spec.dataset = Dataset::kShareGpt;
    read("--sharegpt-output-len", raw.sharegpt_output, &output);
  } else if (raw.dataset == "sonnet") {
    spec.dataset = Dataset::kSonnet;
    if (raw.sonnet_prefix >= raw.sonnet_input) return "--sonnet-input-len: must be above --sonnet-prefix-len";
    input = Distribution(raw.sonnet_input - raw.sonnet_prefix);
    output = Distribution(raw.sonnet_output);
    spec.prefix_tokens = raw.sonnet_prefix;
  } else if (raw.dataset == "prefix_repetition") {
    spec.dataset = Dataset::kPrefixRepetition;
    input = Distribution(raw.repetition_suffix);
    output = Distribution(raw.repetition_output);
    spec.prefix_tokens = raw.repetition_prefix;
    spec.prefixes = raw.repetition_prefixes;
  } else {
    spec.dataset = Dataset::kMultiTurn;
    read("--multi-turn-input-len", raw.chat_input, &input);
    read("--multi-turn-output-len", raw.chat_output, &output);
    spec.prefix_tokens = raw.chat_prefix;
    turns = Distribution(3);
  }
  read("--input-len", raw.input_len, &input);
  read("--output-len", raw.output_len, &output);
  read("--num-turns", raw.turns, &turns);
  read("--think-time-s", raw.think, &think);
  if (!wrong.empty()) return wrong;
  if (input.has_value()) spec.input_tokens = *input;
  spec.output_tokens = output;
  if (turns.has_value()) spec.turns = *turns;
  if (think.has_value()) spec.think_s = *think;
  spec.path = raw.path;
  const bool has_file = spec.dataset == Dataset::kShareGpt || spec.dataset == Dataset::kSonnet;
  if (has_file == raw.path.empty()) return "--dataset-path: goes with --dataset-name sharegpt and sonnet";
  if (spec.dataset == Dataset::kShareGpt && !spec.lengths.empty()) {
    return "--arrival-trace: has lengths of its own, and so has --dataset-name sharegpt";
  }
  if (const std::string ids = FinishTokenIds(raw.token_ids, &spec); !ids.empty()) return ids;
  const bool one_turn = spec.turns.fixed() && spec.turns.first() <= 1;
  if (spec.token_ids.has_value() && (options->chat() || has_file || !one_turn)) {
    return "--random-token-ids: only prompts of one turn, random or prefix_repetition, with --backend openai";
  }
  return "";
}

std::string FinishTenants(const Raw& raw, WorkloadSpec* workload) {
  if (raw.tenants.empty() && raw.tenants_file.empty()) return "";
  workload->tenants.clear();
  if (!raw.tenants_file.empty()) {
    absl::StatusOr<std::vector<TenantSpec>> tenants = ReadTenants(raw.tenants_file);
    if (!tenants.ok()) return absl::StrCat("--tenants-file: ", std::string(tenants.status().message()));
    workload->tenants = *std::move(tenants);
  }
  for (const std::string& text : raw.tenants) {
    absl::StatusOr<TenantSpec> tenant = ParseTenant(text);
    if (!tenant.ok()) return absl::StrCat("--tenant: ", std::string(tenant.status().message()));
    workload->tenants.push_back(*std::move(tenant));
  }
  for (size_t i = 0; i < workload->tenants.size(); ++i) {
    const std::string whose = absl::StrCat(raw.tenants_file.empty() ? "--tenant" : "--tenants-file", ": the key of ",
                                           workload->tenants[i].name);
    if (const std::string wrong = CheckHeadText(whose.c_str(), workload->tenants[i].key); !wrong.empty()) return wrong;
    for (size_t j = 0; j < i; ++j) {
      if (workload->tenants[i].name == workload->tenants[j].name) return "--tenant: two have the same name";
    }
  }
  return "";
}

std::string FinishSampling(const Raw& raw, Options* options) {
  nlohmann::ordered_json members = nlohmann::ordered_json::object();
  const std::pair<const char*, const std::optional<double>&> numbers[] = {
      {"temperature", raw.temperature},
      {"top_p", raw.top_p},
      {"min_p", raw.min_p},
      {"frequency_penalty", raw.frequency_penalty},
      {"presence_penalty", raw.presence_penalty},
      {"repetition_penalty", raw.repetition_penalty}};
  for (const auto& [name, number] : numbers) {
    if (number.has_value()) members[name] = *number;
  }
  if (raw.top_k.has_value()) members["top_k"] = *raw.top_k;
  if (raw.ignore_eos) members["ignore_eos"] = true;
  options->sampling_json = members.dump();
  if (options->extra_json.empty()) return "";
  const auto extra = nlohmann::ordered_json::parse(options->extra_json, nullptr, /*allow_exceptions=*/false);
  return extra.is_object() ? "" : "--extra-body: must be a JSON object";
}

std::string FinishReport(const Raw& raw, Options* options) {
  SummarySpec& summary = options->summary;
  for (const std::string& text : raw.goodput) {
    const std::pair<std::string, std::string> goal = absl::StrSplit(text, absl::MaxSplits(':', 1));
    std::optional<double>* const slot = goal.first == "ttft"   ? &summary.goals.ttft_ms
                                        : goal.first == "tpot" ? &summary.goals.tpot_ms
                                        : goal.first == "e2el" ? &summary.goals.e2el_ms
                                                               : nullptr;
    double value = 0;
    if (slot == nullptr || !absl::SimpleAtod(goal.second, &value) || !(value >= 0)) {
      return "--goodput: must be ttft:MS, tpot:MS or e2el:MS";
    }
    *slot = value;
  }
  summary.percents.clear();
  for (const std::string& text : std::vector<std::string>(absl::StrSplit(raw.percentiles, ','))) {
    double percent = 0;
    if (!absl::SimpleAtod(text, &percent) || !(percent >= 0 && percent <= 100)) {
      return "--metric-percentiles: must be numbers from 0 to 100 with commas between";
    }
    summary.percents.push_back(percent);
  }
  if (options->compare_url.has_value()) {
    const size_t rounds = static_cast<size_t>(options->compare_rounds);
    if (options->arrivals.count > 0 && options->arrivals.count < rounds) {
      return "--num-prompts: compare mode needs at least one for each of --compare-rounds";
    }
    if (!options->arrivals.trace.empty()) return "--arrival-trace: not in compare mode";
  }
  options->save_result = options->save_result || options->save_detailed || !options->result_filename.empty();
  options->progress = !raw.no_progress;
  return "";
}

// Flags whose values never go into a report.
bool IsSecret(const std::string& name) { return name == "--api-key" || name == "--tenant" || name == "--header"; }

// A default that this load does not use: a flag of another dataset, a length in whose place another one is given, …
// `has_lengths`: the trace has them.
bool IsIdle(const std::string& name, const Raw& raw, bool has_lengths) {
  for (const char* dataset : {"random", "sharegpt", "sonnet", "prefix-repetition", "multi-turn"}) {
    if (!name.starts_with(absl::StrCat("--", dataset, "-"))) continue;
    const bool is_input = name.ends_with("-input-len") || name.ends_with("-suffix-len");
    const bool is_output = name.ends_with("-output-len");
    return absl::StrReplaceAll(raw.dataset, {{"_", "-"}}) != dataset || (is_input && !raw.input_len.empty()) ||
           (is_output && !raw.output_len.empty()) || ((is_input || is_output) && has_lengths);
  }
  const bool has_trace = !raw.trace.empty();
  return name == "--host" || name == "--port" || (name == "--compare-rounds" && raw.compare_url.empty()) ||
         (name == "--request-rate" && (has_trace || !raw.ramp.empty())) || (name == "--burstiness" && has_trace);
}

std::vector<std::pair<std::string, std::string>> Configuration(const CLI::App& app, const Raw& raw,
                                                               const Options& options) {
  std::vector<std::pair<std::string, std::string>> configuration;
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (name == "--help" || name == "--version") continue;
    if (option->count() == 0 && IsIdle(name, raw, !options.workload.lengths.empty())) continue;
    std::string value = option->count() > 0 ? absl::StrJoin(option->results(), " ") : option->get_default_str();
    if (IsSecret(name)) value = option->count() > 0 ? "(given)" : "";
    if (name == "--num-prompts") value = options.arrivals.count > 0 ? absl::StrCat(options.arrivals.count) : "";
    if (name == "--endpoint") value = options.endpoint;
    if (name == "--base-url") value = options.base_url.ToString();
    if (name == "--duration") value = Plain(options.arrivals.duration_s);
    if (!value.empty()) configuration.emplace_back(name.substr(2), value);
  }
  for (const TenantSpec& tenant : options.workload.tenants) {
    configuration.emplace_back(
        absl::StrCat("tenant ", tenant.name),
        absl::StrCat("weight ", tenant.weight, ", load ", tenant.load > 0 ? tenant.load : tenant.weight));
  }
  return configuration;
}

OptionsResult Fail(std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  OptionsResult result;
  result.message = std::move(message);
  result.exit_code = kLoadExitUsage;
  return result;
}

// What is wrong with the first flag that `app` does not have, or nothing.
std::string WrongFlag(const CLI::App& app, const std::vector<std::string>& arguments) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  return UnknownFlag(arguments, known, "hydrant-loadgen --help");
}

std::string Finish(const Raw& raw, Options* options) {
  std::string wrong = FinishServer(raw, options);
  if (wrong.empty()) wrong = FinishArrivals(raw, options);
  if (wrong.empty()) wrong = FinishDataset(raw, options);
  if (wrong.empty()) wrong = FinishTenants(raw, &options->workload);
  if (wrong.empty()) wrong = FinishSampling(raw, options);
  if (wrong.empty()) wrong = FinishReport(raw, options);
  return wrong;
}

}  // namespace

OptionsResult ParseOptions(const std::vector<std::string>& arguments) {
  Options options;
  Raw raw;
  CLI::App app("Puts a load on an OpenAI-style server and reports what became of it.", "hydrant-loadgen");
  app.set_version_flag("--version", std::string("hydrant-loadgen ") + kLoadgenVersion);
  AddServerFlags(app, options, raw);
  AddArrivalFlags(app, options, raw);
  AddDatasetFlags(app, raw);
  AddSamplingFlags(app, options, raw);
  AddReportFlags(app, options, raw);
  if (const std::string wrong = WrongFlag(app, arguments); !wrong.empty()) return Fail(wrong);
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // CLI11 takes its arguments last first
    app.parse(std::move(reversed));
  } catch (const CLI::Success& request) {
    std::ostringstream text;
    app.exit(request, text, text);
    OptionsResult result;
    result.message = text.str();
    while (!result.message.empty() && result.message.back() == '\n') result.message.pop_back();
    return result;
  } catch (const CLI::ParseError& error) {
    return Fail(error.what());
  }
  if (const std::string wrong = Finish(raw, &options); !wrong.empty()) return Fail(wrong);
  options.configuration = Configuration(app, raw, options);
  OptionsResult result;
  result.options = std::move(options);
  return result;
}

}  // namespace hydrant
