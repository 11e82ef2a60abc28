// What the command line says, flag by flag, before it is checked as a whole: where the flags' names, units, defaults and
// descriptions are.
//
// Thread: any (plain data, a function without state).
#ifndef HYDRANT_LOADGEN_FLAGS_H_
#define HYDRANT_LOADGEN_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loadgen/options.h"

namespace hydrant {

inline constexpr char kLoadgenHelp[] = "hydrant-loadgen --help-all";  // the command that lists the flags

// The flags whose values Options takes in another form.
struct RawFlags {
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

// Adds every flag to `app`, which sets the members of `options` and `raw`: both outlive it.
void AddFlags(CLI::App& app, Options& options, RawFlags& raw);

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_FLAGS_H_
