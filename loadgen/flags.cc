#include "loadgen/flags.h"

#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/flags/flag_group.h"
#include "api/flags/help_page.h"
#include "api/wire/version.h"

namespace hydrant {
namespace {

// What --help shows; --help-all has every flag.
const char* const kEssentialFlags[] = {
    "--base-url",     "--host",         "--port",        "--backend",         "--model",       "--api-key",
    "--request-rate", "--num-prompts",  "--duration",    "--max-concurrency", "--num-warmups", "--seed",
    "--dataset-name", "--dataset-path", "--input-len",   "--output-len",      "--num-turns",   "--think-time-s",
    "--tenant",       "--ignore-eos",   "--temperature", "--goodput",         "--save-result", "--result-filename",
    "--html",         "--compare-url",  "--help",        "--help-all",        "--version"};

void AddServerFlags(CLI::App& app, Options& options, RawFlags& raw) {
  const FlagGroup group(app, "Server");
  group.Add("--base-url", "URL", raw.base_url,
            "http(s)://HOST:PORT, with or without /v1, in place of --host and --port");
  group.AddWithDefault("--host", "ADDRESS", raw.host, "name or address of the server");
  group.AddWithDefault("--port", "PORT", raw.port, "port of the server")->check(CLI::Range(1, 65535));
  group.AddChoice("--backend", {"openai", "openai-chat"}, options.backend,
                  "endpoint to load: completions or chat completions");
  group.Add("--endpoint", "PATH", options.endpoint,
            "path of the requests (default: /v1/completions or /v1/chat/completions)");
  group.Add("--model", "NAME", options.model, "model's name in requests (default: the first of the server's list)");
  group.Add("--api-key", "KEY", options.key, "bearer token (or the variable OPENAI_API_KEY)");
  group.Add("--header", "KEY=VALUE", raw.headers, "fields for the header of every request; one or more");
  group.Add("--request-id-prefix", "TEXT", options.request_id_prefix,
            "what X-Request-Id begins with (default: bench-SEED-)");
  group.AddSwitch("--session-ids", options.session_ids, "send X-Session-ID, another one for each conversation");
  group.AddSwitch("--insecure", options.insecure, "do not check the server's certificate");
  group
      .AddWithDefault("--ready-check-timeout-sec", "SECONDS", options.ready_timeout_s,
                      "how long to wait for the server before the load begins")
      ->check(CLI::Range(0.0, 86400.0));
  group
      .AddWithDefault("--request-timeout-s", "SECONDS", options.request_timeout_s,
                      "for one request, from the connection to the last byte")
      ->check(CLI::Range(0.01, 86400.0));
}

void AddArrivalFlags(CLI::App& app, Options& options, RawFlags& raw) {
  const FlagGroup group(app, "Arrivals");
  group.AddWithDefault("--request-rate", "RATE", raw.request_rate, "conversations per second; inf: all at once");
  group.AddWithDefault(
      "--burstiness", "SHAPE", options.arrivals.burstiness,
      "shape of the gaps between conversations; 1: Poisson, less: burstier, more: evener, inf: constant");
  group
      .Add("--num-prompts", "N", raw.num_prompts,
           "number of conversations (default: 1000, or with --duration any number)")
      ->check(CLI::Range(1, 1'000'000'000));
  group.Add("--duration", "SECONDS", options.arrivals.duration_s, "time in which conversations begin");
  group
      .Add("--max-concurrency", "N", options.concurrency_max,
           "most conversations at a time; with rate inf a closed loop of N users")
      ->check(CLI::Range(1, 1'000'000));
  group
      .Add("--ramp-up-strategy", "SHAPE", raw.ramp,
           "linear or exponential: the rate changes over --duration, or else over the conversations")
      ->check(CLI::IsMember({"linear", "exponential"}));
  group.Add("--ramp-up-start-rps", "RATE", raw.ramp_start,
            "rate at the beginning of the ramp; 0 only where it is linear, with --duration");
  group.Add("--ramp-up-end-rps", "RATE", raw.ramp_end, "rate at the end of the ramp");
  group
      .Add("--ramp-up-users-s", "SECONDS", options.arrivals.users_ramp_s,
           "in a closed loop, time until all users are there")
      ->check(CLI::Range(0.0, 86400.0));
  group.Add("--arrival-trace", "FILE", raw.trace, "times of arrival, and lengths if the file has them");
  group.AddWithDefault("--num-warmups", "N", options.warmups, "conversations before the load, not counted")
      ->check(CLI::Range(0, 1'000'000));
  group.AddWithDefault("--seed", "N", options.workload.seed, "the same seed is the same load");
}

void AddDatasetFlags(CLI::App& app, RawFlags& raw) {
  const FlagGroup group(
      app, "Dataset (LEN: a number, or uniform:LOW:HIGH, normal:MEAN:SD, lognormal:MEDIAN:SIGMA, exponential:MEAN)");
  const auto text = [&](const char* name, const char* unit, std::string& value, const char* help) {
    group.AddWithDefault(name, unit, value, help);
  };
  const auto number = [&](const char* name, int32_t& value, const char* help, int32_t min = 0) {
    group.AddWithDefault(name, "N", value, help)->check(CLI::Range(min, 1 << 24));
  };
  group
      .AddWithDefault("--dataset-name", "NAME", raw.dataset,
                      "random, sharegpt, sonnet, prefix_repetition or multi_turn")
      ->check(CLI::IsMember({"random", "sharegpt", "sonnet", "prefix_repetition", "multi_turn"}));
  text("--dataset-path", "FILE", raw.path, "file of sharegpt and sonnet");
  text("--input-len", "LEN", raw.input_len, "tokens of a prompt, whatever the dataset");
  text("--output-len", "LEN", raw.output_len, "tokens of an answer, whatever the dataset");
  text("--random-input-len", "LEN", raw.random_input, "random: tokens of a prompt");
  text("--random-output-len", "LEN", raw.random_output, "random: tokens of an answer");
  group
      .AddWithDefault("--random-range-ratio", "SHARE", raw.random_range,
                      "random: lengths vary by this share around theirs")
      ->check(CLI::Range(0.0, 0.999));
  number("--random-prefix-len", raw.random_prefix, "random: tokens that all prompts begin with");
  text("--random-token-ids", "RANGE", raw.token_ids,
       "LOW:HIGH: prompts of these token ids, not of words; exact lengths");
  text("--sharegpt-output-len", "LEN", raw.sharegpt_output,
       "sharegpt: tokens of an answer (default: as many as the file's)");
  number("--sonnet-input-len", raw.sonnet_input, "sonnet: tokens of a prompt, the shared ones included");
  number("--sonnet-output-len", raw.sonnet_output, "sonnet: tokens of an answer");
  number("--sonnet-prefix-len", raw.sonnet_prefix, "sonnet: tokens that all prompts begin with");
  number("--prefix-repetition-prefix-len", raw.repetition_prefix, "prefix_repetition: tokens of a shared prefix");
  number("--prefix-repetition-suffix-len", raw.repetition_suffix, "prefix_repetition: tokens behind the prefix");
  number("--prefix-repetition-num-prefixes", raw.repetition_prefixes, "prefix_repetition: number of prefixes", 1);
  number("--prefix-repetition-output-len", raw.repetition_output, "prefix_repetition: tokens of an answer");
  text("--num-turns", "LEN", raw.turns, "turns of a conversation (default: multi_turn 3, sharegpt 1)");
  text("--multi-turn-input-len", "LEN", raw.chat_input, "multi_turn: tokens of what a user says");
  text("--multi-turn-output-len", "LEN", raw.chat_output, "multi_turn: tokens of an answer");
  number("--multi-turn-prefix-len", raw.chat_prefix, "multi_turn: tokens of the system message that all share");
  text("--think-time-s", "LEN", raw.think, "seconds between an answer and the next turn");
  group.Add("--tenant", "TENANT", raw.tenants, "name=…,key=… or key_env=…,weight=…,load=…; once for each tenant")
      ->allow_extra_args(false);
  text("--tenants-file", "FILE", raw.tenants_file, "the tenants as JSON");
}

void AddSamplingFlags(CLI::App& app, Options& options, RawFlags& raw) {
  const FlagGroup group(app, "Sampling");
  group.AddSwitch("--ignore-eos", raw.ignore_eos, "answers are as long as was asked for");
  const auto member = [&](const char* flag, auto& value, const char* name) {
    group.Add(flag, "X", value, absl::StrCat("the member ", name, " of each request"));
  };
  member("--temperature", raw.temperature, "temperature");
  member("--top-p", raw.top_p, "top_p");
  member("--top-k", raw.top_k, "top_k");
  member("--min-p", raw.min_p, "min_p");
  member("--frequency-penalty", raw.frequency_penalty, "frequency_penalty");
  member("--presence-penalty", raw.presence_penalty, "presence_penalty");
  member("--repetition-penalty", raw.repetition_penalty, "repetition_penalty");
  group.Add("--extra-body", "JSON", options.extra_json, "object of further members of each request");
}

void AddReportFlags(CLI::App& app, Options& options, RawFlags& raw) {
  const FlagGroup group(app, "Report");
  group.Add("--goodput", "GOALS", raw.goodput, "what a good request keeps to: ttft:MS tpot:MS e2el:MS")->expected(1, 3);
  group.AddWithDefault("--metric-percentiles", "LIST", raw.percentiles, "percentiles of the report, comma-separated");
  group.Add("--label", "TEXT", options.label, "title of the report (default: the backend)");
  group.Add("--metadata", "KEY=VALUE", raw.metadata, "what else to keep in the JSON; one or more");
  group.AddSwitch("--save-result", options.save_result, "write the report as JSON");
  group.AddSwitch("--save-detailed", options.save_detailed, "the same with the times of every request");
  group.Add("--result-dir", "DIR", options.result_dir, "folder of the JSON (default: the current one)");
  group.Add("--result-filename", "NAME", options.result_filename, "name of the JSON; implies --save-result");
  group.Add("--html", "FILE", options.html_path, "write a report with plots here");
  group
      .AddWithDefault("--lag-limit-ms", "MS", options.summary.lag_limit_ms,
                      "the report says so if the client itself was later than this")
      ->check(CLI::Range(0.1, 1e6));
  group.AddSwitch("--disable-tqdm,--no-progress", raw.no_progress, "print no line a second while it runs");
  group.Add("--compare-url", "URL", raw.compare_url, "second server: the same load on both in turn, and ratios");
  group.Add("--compare-model", "NAME", options.compare_model, "model of the second server (default: as the first's)");
  group.AddWithDefault("--compare-rounds", "N", options.compare_rounds, "rounds in which both have their turn")
      ->check(CLI::Range(2, 1000));
}

void AddGeneralFlags(CLI::App& app) {
  app.set_help_flag("-h,--help", "print the flags that most loads need, and exit");
  app.set_help_all_flag("--help-all", "print every flag, and exit");
  app.set_version_flag("--version", std::string("hydrant-loadgen ") + kVersion, "print the version, and exit");
  app.formatter(
      std::make_shared<HelpPage>(std::set<std::string>(std::begin(kEssentialFlags), std::end(kEssentialFlags))));
}

}  // namespace

void AddFlags(CLI::App& app, Options& options, RawFlags& raw) {
  AddServerFlags(app, options, raw);
  AddArrivalFlags(app, options, raw);
  AddDatasetFlags(app, raw);
  AddSamplingFlags(app, options, raw);
  AddReportFlags(app, options, raw);
  AddGeneralFlags(app);
}

}  // namespace hydrant
