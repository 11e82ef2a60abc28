// hydrantd: the server program.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "server/config.h"
#include "server/process/secrecy.h"
#include "server/server.h"
#include "server/sessions/tools/session_tools.h"

namespace {

int RunTools(const std::vector<std::string>& arguments) {
  hydrant::ForbidCoreDumps();  // the text of sessions passes through
  hydrant::ToolStreams streams;
  streams.out = [](std::string_view text) { (void)std::fwrite(text.data(), 1, text.size(), stdout); };
  streams.error = [](std::string_view line) {
    (void)std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  };
  const int exit_code = hydrant::RunSessionTools({arguments.begin() + 1, arguments.end()}, streams);
  // A full disk behind `>` is no success.
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  streams.error("hydrantd sessions: the standard output cannot be written");
  return hydrant::kExitResources;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error code, as one on a disk that is full
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    if (!arguments.empty() && arguments.front() == hydrant::kSessionsCommand) return RunTools(arguments);
    const hydrant::ConfigResult parsed = hydrant::ParseCommandLine(arguments);
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
