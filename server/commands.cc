#include "server/commands.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/wire/nearest_name.h"
#include "model/checkpoint/checkpoint.h"
#include "server/model_path.h"
#include "server/sessions/tools/session_tools.h"

namespace hydrant {
namespace {

constexpr const char* kFamiliesCommand = "families";
constexpr const char* kCheckCommand = "check";
constexpr const char* kFamiliesHelp = "hydrantd families\n\nPrints the model families that can be served, as JSON.";
constexpr const char* kCheckHelp =
    "hydrantd check DIRECTORY\n\nSays whether a model with the directory's config.json can be served.";

bool AsksForHelp(const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin() + 1, arguments.end(),
                     [](const std::string& argument) { return argument == "--help" || argument == "-h"; });
}

// What is wrong with the first argument, which says what to do, or nothing.
std::string WrongCommand(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return "there is nothing to do; to serve a model: hydrantd serve MODEL (hydrantd --help)";
  const std::string& command = arguments.front();
  if (command == "serve" || command == "--version") return "";
  if (command.starts_with("-")) return absl::StrCat(command, ": the command comes first: hydrantd serve MODEL [flags]");
  const std::string commands[] = {"serve", kFamiliesCommand, kCheckCommand, kSessionsCommand};
  const std::string_view nearest = NearestName(command, commands);
  const std::string meant = nearest.empty() ? absl::StrCat("hydrantd serve ", command) : std::string(nearest);
  return absl::StrCat("there is no command '", command, "': did you mean ", meant, "?");
}

CommandAnswer TellFamilies(const std::vector<std::string>& arguments) {
  if (AsksForHelp(arguments)) return {kFamiliesHelp};
  if (arguments.size() != 1) return {"families: takes no arguments: hydrantd families", kExitUsage};
  return {ModelFamiliesJson()};
}

CommandAnswer CheckDirectory(const std::vector<std::string>& arguments) {
  if (AsksForHelp(arguments)) return {kCheckHelp};
  if (arguments.size() != 2) return {"check: name one directory: hydrantd check DIRECTORY", kExitUsage};
  const absl::Status status = CheckDirectoryConfig(arguments[1]);
  if (!status.ok()) return {std::string(status.message()), kExitConfig};
  return {"what its config.json says can be served"};
}

}  // namespace

std::optional<CommandAnswer> AnswerCommand(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments.front() == kFamiliesCommand) return TellFamilies(arguments);
  if (!arguments.empty() && arguments.front() == kCheckCommand) return CheckDirectory(arguments);
  std::string wrong = WrongCommand(arguments);
  if (wrong.empty()) return std::nullopt;
  return CommandAnswer{std::move(wrong), kExitUsage};
}

}  // namespace hydrant
