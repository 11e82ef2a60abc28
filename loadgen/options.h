// The command line. Flags have vLLM `bench serve`'s names where the meaning is the same.
//
// Thread: any (plain data, a pure function but for the files and environment variables it reads).
#ifndef HYDRANT_LOADGEN_OPTIONS_H_
#define HYDRANT_LOADGEN_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "loadgen/client/http_request.h"
#include "loadgen/client/url.h"
#include "loadgen/load/arrivals.h"
#include "loadgen/load/workload.h"
#include "loadgen/results/summary.h"

namespace hydrant {

// What the process answers to whoever started it (sysexits.h).
inline constexpr int kLoadExitOk = 0;
inline constexpr int kLoadExitNothing = 1;       // no request succeeded
inline constexpr int kLoadExitUsage = 64;        // the command line, or a file it names
inline constexpr int kLoadExitUnavailable = 69;  // the server cannot be reached
inline constexpr int kLoadExitInternal = 70;     // the program
inline constexpr int kLoadExitWrite = 73;        // a report cannot be written

struct Options {
  Url base_url;
  std::optional<Url> compare_url;
  std::string compare_model;  // empty: as the first server's
  int32_t compare_rounds = 6;
  std::string backend = "openai";  // or openai-chat
  std::string endpoint;
  std::string model;  // empty: the server's first
  std::string label;
  std::string key;
  HttpFields fields;
  std::string sampling_json;  // an object
  std::string extra_json;     // an object, or empty
  std::string request_id_prefix;
  bool session_ids = false;
  bool insecure = false;

  WorkloadSpec workload;
  ArrivalSpec arrivals;
  int32_t concurrency_max = 0;
  int32_t warmups = 0;
  double request_timeout_s = 600;
  double ready_timeout_s = 0;

  SummarySpec summary;
  bool progress = true;
  bool save_result = false;
  bool save_detailed = false;
  std::string result_dir;
  std::string result_filename;  // empty: made of the label, the rate and the date
  std::string html_path;        // empty: none
  std::vector<std::pair<std::string, std::string>> metadata;

  // Every flag and its effective value, for reports; no keys.
  std::vector<std::pair<std::string, std::string>> configuration;

  bool chat() const { return backend == "openai-chat"; }
};

// Either options, or a text for the user and the code to exit with.
struct OptionsResult {
  std::optional<Options> options;
  std::string message;  // without a newline at the end
  int exit_code = kLoadExitOk;
};

// `arguments` without the program's name. Takes a key that no flag gives from OPENAI_API_KEY.
OptionsResult ParseOptions(const std::vector<std::string>& arguments);

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_OPTIONS_H_
