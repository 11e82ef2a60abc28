// HelpPage prints the flags of a command: grouped, one line each, with the value's unit, what the flag is for and its
// default. --help shows the flags that most operators need, --help-all every flag.
//
// Thread: any.
#ifndef HYDRANT_API_FLAGS_HELP_PAGE_H_
#define HYDRANT_API_FLAGS_HELP_PAGE_H_

#include <CLI/CLI.hpp>
#include <set>
#include <string>
#include <utility>

namespace hydrant {

class HelpPage : public CLI::Formatter {
 public:
  // `essential`: the flags of --help, as "--host".
  explicit HelpPage(std::set<std::string> essential) : essential_(std::move(essential)) {}

  // The page of the command `name` ("hydrantd serve"). Groups come in the order of their first flags; CLI11's own, which
  // has no name of ours, is last.
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;

 private:
  std::set<std::string> essential_;
};

}  // namespace hydrant

#endif  // HYDRANT_API_FLAGS_HELP_PAGE_H_
