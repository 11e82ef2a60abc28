// Reads the files loads are made of. Errors: NOT_FOUND and INVALID_ARGUMENT, one line that names the file.
//
// Thread: any.
#ifndef HYDRANT_LOADGEN_LOAD_DATASET_FILES_H_
#define HYDRANT_LOADGEN_LOAD_DATASET_FILES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "loadgen/load/workload.h"

namespace hydrant {

absl::StatusOr<std::string> ReadFile(const std::string& path);

// ShareGPT's shape: [{"conversations": [{"from": "human", "value": …}, {"from": "gpt", …}, …]}, …]. What the sides say in
// turn, the user first; a chat ends where the turns stop alternating. `role`/`content` in place of `from`/`value` and
// `messages` in place of `conversations` do as well.
absl::StatusOr<std::vector<std::vector<std::string>>> ReadShareGpt(const std::string& path);

// The lines of a text that are not empty. An error where there are none.
absl::StatusOr<std::vector<std::string>> ReadLines(const std::string& path);

struct Trace {
  std::vector<double> arrivals_s;                    // ascending
  std::vector<std::pair<int32_t, int32_t>> lengths;  // tokens of prompt and output, or empty
};
// One arrival per line: seconds since the start, then nothing or the tokens of prompt and output, separated by blanks or
// commas; or Mooncake's JSON lines, {"timestamp": milliseconds, "input_length": n, "output_length": n}. Empty lines and
// those that begin with # are skipped.
absl::StatusOr<Trace> ReadTrace(const std::string& path);

// {"tenants": [{"name", "key" or "key_env", "weight", "load"}, …]}; only the name is required, unknown members are errors.
absl::StatusOr<std::vector<TenantSpec>> ReadTenants(const std::string& path);
// name=…,key=…,weight=…,load=…; key_env=NAME takes the key from the environment.
absl::StatusOr<TenantSpec> ParseTenant(std::string_view text);

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_LOAD_DATASET_FILES_H_
