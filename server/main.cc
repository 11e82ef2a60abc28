// hydrantd: the server program.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "server/config.h"
#include "server/process/secrecy.h"
#include "server/server.h"

int main(int argc, char** argv) {
  try {
    const hydrant::ConfigResult parsed = hydrant::ParseCommandLine(std::vector<std::string>(argv + 1, argv + argc));
    if (!parsed.config.has_value()) {
      const bool failed = parsed.exit_code != hydrant::kExitOk;
      (void)std::fprintf(failed ? stderr : stdout, "%s%s\n", failed ? "hydrantd: " : "", parsed.message.c_str());
      return parsed.exit_code;
    }
    for (const char* key : hydrant::kKeyVariables) hydrant::ForgetVariable(key);
    hydrant::ForgetArguments({argv, static_cast<size_t>(argc)}, hydrant::kKeyFlags);
    if (!parsed.config->allow_core_dumps) hydrant::ForbidCoreDumps();
    hydrant::ShowBar bar;
    if (isatty(STDERR_FILENO) == 1) {
      bar = [](const std::string& text) { (void)std::fprintf(stderr, "\r\x1b[K%s", text.c_str()); };
    }
    return hydrant::Serve(
        *parsed.config, [](const std::string& line) { (void)std::fprintf(stderr, "%s\n", line.c_str()); }, bar);
  } catch (const std::exception& error) {
    (void)std::fprintf(stderr, "hydrantd: %s\n", error.what());
    return hydrant::kExitInternal;
  }
}
