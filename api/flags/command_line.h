// What the command lines of both programs share: passing arguments to CLI11, and the message if it refuses them.
//
// Thread: any (pure functions).
#ifndef HYDRANT_API_FLAGS_COMMAND_LINE_H_
#define HYDRANT_API_FLAGS_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/wire/nearest_name.h"

namespace hydrant {

// Gives `arguments`, without the program's name, to `app`. Throws CLI::Success for --help and --version, and
// CLI::ParseError.
void ParseArguments(CLI::App& app, const std::vector<std::string>& arguments);

// What `app` prints for --help or --version, without a line's end after it.
std::string AnswerOf(const CLI::App& app, const CLI::Success& request);

// The message for the first flag in `arguments` that `app` does not have; empty if there is none. `help` is the command
// that lists the flags; `advices`: what is said of flags of other programs.
std::string WrongFlag(const CLI::App& app, std::span<const std::string> arguments, std::string_view help,
                      std::span<const FlagAdvice> advices = {});

// A message in one line, whatever a library put into it.
std::string OneLine(std::string message);

}  // namespace hydrant

#endif  // HYDRANT_API_FLAGS_COMMAND_LINE_H_
