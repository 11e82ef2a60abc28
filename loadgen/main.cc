// hydrant-loadgen: the load generator.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "loadgen/benchmark.h"
#include "loadgen/options.h"

namespace {

// On a terminal the line of progress is written over by the next; in a log each stays.
void Progress(const std::string& line) {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  (void)std::fprintf(stderr, terminal ? "\r\033[K%s" : "%s\n", line.c_str());
}

void Note(const std::string& line) {
  (void)std::fprintf(stderr, isatty(STDERR_FILENO) != 0 ? "\r\033[K%s\n" : "%s\n", line.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const hydrant::OptionsResult parsed = hydrant::ParseOptions(std::vector<std::string>(argv + 1, argv + argc));
    if (!parsed.options.has_value()) {
      const bool failed = parsed.exit_code != hydrant::kLoadExitOk;
      (void)std::fprintf(failed ? stderr : stdout, "%s%s\n", failed ? "hydrant-loadgen: " : "", parsed.message.c_str());
      return parsed.exit_code;
    }
    const hydrant::Terminal terminal{[](const std::string& text) { (void)std::fputs(text.c_str(), stdout); }, Note,
                                     Progress};
    return hydrant::RunBenchmark(*parsed.options, terminal);
  } catch (const std::exception& error) {
    (void)std::fprintf(stderr, "hydrant-loadgen: %s\n", error.what());
    return hydrant::kLoadExitInternal;
  }
}
