// ExpectRefused opens a checkpoint that must be refused: in one line with every part, and without costing more memory than
// twice its files.
#ifndef HYDRANT_TESTS_MODEL_CHECKPOINT_REFUSED_CHECKPOINT_H_
#define HYDRANT_TESTS_MODEL_CHECKPOINT_REFUSED_CHECKPOINT_H_

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "tests/support/peak_memory.h"
#include "tests/support/status_matchers.h"

namespace hydrant {

inline void ExpectRefused(const std::string& path, const std::vector<std::string>& parts) {
  // What a sound checkpoint of a few KB needs: hash tables, compiled patterns, parsed JSON.
  int64_t bytes_max = 1 << 20;
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path)) bytes_max += 2 * static_cast<int64_t>(std::filesystem::file_size(path));
  for (const auto& entry : std::filesystem::directory_iterator(path, ignored)) {
    if (entry.is_regular_file()) bytes_max += 2 * static_cast<int64_t>(entry.file_size());
  }
  const PeakMemory peak;
  const auto checkpoint = Checkpoint::Open(path);
  EXPECT_LE(peak.bytes(), bytes_max);
  EXPECT_THAT(checkpoint, RefusedWithParts(parts));
}

}  // namespace hydrant

#endif  // HYDRANT_TESTS_MODEL_CHECKPOINT_REFUSED_CHECKPOINT_H_
