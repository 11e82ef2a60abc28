#include "api/flags/command_line.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/wire/nearest_name.h"

namespace hydrant {

void ParseArguments(CLI::App& app, const std::vector<std::string>& arguments) {
  app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes its arguments last first
}

std::string AnswerOf(const CLI::App& app, const CLI::Success& request) {
  std::ostringstream out;
  app.exit(request, out, out);
  std::string text = out.str();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::string WrongFlag(const CLI::App& app, std::span<const std::string> arguments, std::string_view help,
                      std::span<const FlagAdvice> advices) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back(absl::StrCat("--", name));
  }
  return UnknownFlag(arguments, known, help, advices);
}

std::string OneLine(std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  return message;
}

}  // namespace hydrant
