#include "server/commands.h"

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

CommandAnswer CheckDirectory(const std::vector<std::string>& arguments) {
  if (arguments.size() != 2) return {"check: name one directory: hydrantd check DIRECTORY", kExitUsage};
  const absl::Status status = CheckDirectoryConfig(arguments[1]);
  if (!status.ok()) return {std::string(status.message()), kExitConfig};
  return {"what its config.json says can be served"};
}

}  // namespace

std::optional<CommandAnswer> AnswerCommand(const std::vector<std::string>& arguments) {
  if (arguments.size() == 1 && arguments.front() == kFamiliesCommand) return CommandAnswer{ModelFamiliesJson()};
  if (!arguments.empty() && arguments.front() == kCheckCommand) return CheckDirectory(arguments);
  std::string wrong = WrongCommand(arguments);
  if (wrong.empty()) return std::nullopt;
  return CommandAnswer{std::move(wrong), kExitUsage};
}

}  // namespace hydrant
