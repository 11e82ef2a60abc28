// AnswerCommand answers what is asked of `hydrantd` where no model is to be served.
//
// Thread: any.
#ifndef HYDRANT_SERVER_COMMANDS_H_
#define HYDRANT_SERVER_COMMANDS_H_

#include <optional>
#include <string>
#include <vector>

#include "server/process/exit_codes.h"

namespace hydrant {

struct CommandAnswer {
  std::string message;  // for the standard output, or what is wrong
  int exit_code = kExitOk;
};

// `arguments` as those of ParseCommandLine (server/config.h). `families`: the model families, as JSON. `check DIRECTORY`: whether
// what the directory's config.json says can be served. Any other command but `serve`, or none: what was probably meant. Nothing
// for `serve` and `--version`.
std::optional<CommandAnswer> AnswerCommand(const std::vector<std::string>& arguments);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_COMMANDS_H_
