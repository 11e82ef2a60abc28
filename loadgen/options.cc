#include "loadgen/options.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "api/flags/command_line.h"
#include "api/wire/json_writer.h"
#include "loadgen/flags.h"
#include "loadgen/load/dataset_files.h"
#include "nlohmann/json.hpp"

namespace hydrant {
namespace {

constexpr size_t kPromptsDefault = 1000;  // vLLM's

std::string Plain(double value) { return std::isinf(value) ? "inf" : absl::StrCat(value); }

// What flags mean together. Each function returns an error that names the flag, or nothing.

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

std::string FinishUrls(const RawFlags& raw, Options* options) {
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

std::string FinishServer(const RawFlags& raw, Options* options) {
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

std::string FinishRamp(const RawFlags& raw, ArrivalSpec* arrivals) {
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

std::string FinishArrivals(const RawFlags& raw, Options* options) {
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
  if (!trace.ok()) return absl::StrCat("--arrival-trace: ", trace.status().message());
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
std::string FinishDataset(const RawFlags& raw, Options* options) {
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

std::string FinishTenants(const RawFlags& raw, WorkloadSpec* workload) {
  if (raw.tenants.empty() && raw.tenants_file.empty()) return "";
  workload->tenants.clear();
  if (!raw.tenants_file.empty()) {
    absl::StatusOr<std::vector<TenantSpec>> tenants = ReadTenants(raw.tenants_file);
    if (!tenants.ok()) return absl::StrCat("--tenants-file: ", tenants.status().message());
    workload->tenants = *std::move(tenants);
  }
  for (const std::string& text : raw.tenants) {
    absl::StatusOr<TenantSpec> tenant = ParseTenant(text);
    if (!tenant.ok()) return absl::StrCat("--tenant: ", tenant.status().message());
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

std::string FinishSampling(const RawFlags& raw, Options* options) {
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

std::string FinishReport(const RawFlags& raw, Options* options) {
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
bool IsIdle(const std::string& name, const RawFlags& raw, bool has_lengths) {
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

std::vector<std::pair<std::string, std::string>> Configuration(const CLI::App& app, const RawFlags& raw,
                                                               const Options& options) {
  std::vector<std::pair<std::string, std::string>> configuration;
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (name == "--help" || name == "--help-all" || name == "--version") continue;
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

// What is given beside a trace that has it. A trace's lengths are of first turns.
std::string FinishTrace(const CLI::App& app, const Options& options) {
  if (options.arrivals.trace.empty()) return "";
  const WorkloadSpec& spec = options.workload;
  const bool has_lengths = !spec.lengths.empty() && spec.turns.fixed() && spec.turns.first() <= 1;
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    const bool is_length = name.ends_with("-input-len") || name.ends_with("-output-len") ||
                           name.ends_with("-suffix-len") || name == "--random-range-ratio";
    if (option->count() == 0 || !(name == "--burstiness" || (is_length && has_lengths))) continue;
    return absl::StrCat(name, ": not with --arrival-trace", is_length ? ", which has lengths" : "");
  }
  return "";
}

OptionsResult Fail(std::string message) {
  OptionsResult result;
  result.message = OneLine(std::move(message));
  result.exit_code = kLoadExitUsage;
  return result;
}

std::string Finish(const RawFlags& raw, Options* options) {
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
  RawFlags raw;
  CLI::App app("Puts a load on an OpenAI-style server and reports what became of it.", "hydrant-loadgen");
  AddFlags(app, options, raw);
  if (const std::string wrong = WrongFlag(app, arguments, kLoadgenHelp); !wrong.empty()) return Fail(wrong);
  try {
    ParseArguments(app, arguments);
  } catch (const CLI::Success& request) {
    OptionsResult result;
    result.message = AnswerOf(app, request);
    return result;
  } catch (const CLI::ParseError& error) {
    return Fail(error.what());
  }
  if (const std::string wrong = Finish(raw, &options); !wrong.empty()) return Fail(wrong);
  if (const std::string wrong = FinishTrace(app, options); !wrong.empty()) return Fail(wrong);
  options.configuration = Configuration(app, raw, options);
  OptionsResult result;
  result.options = std::move(options);
  return result;
}

}  // namespace hydrant
