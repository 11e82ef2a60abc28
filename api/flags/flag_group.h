// FlagGroup adds flags to one group of a command's page of help. A flag's description, its unit and its place on the page are
// what is said here, and nowhere else.
//
// Thread: the one that parses the command line.
#ifndef HYDRANT_API_FLAGS_FLAG_GROUP_H_
#define HYDRANT_API_FLAGS_FLAG_GROUP_H_

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"

namespace hydrant {

class FlagGroup {
 public:
  // `app` outlives this; `name` is the heading of the group.
  FlagGroup(CLI::App& app, const char* name) : app_(app), name_(name) {}

  // `value`: what stands for the value on the page, a unit where it has one. `target` outlives the app.
  template <typename T>
  CLI::Option* Add(const char* flag, const char* value, T& target, std::string text) const {
    return app_.add_option(flag, target, std::move(text))->type_name(value)->group(name_);
  }
  // Shows the default that `target` has.
  template <typename T>
  CLI::Option* AddWithDefault(const char* flag, const char* value, T& target, std::string text) const {
    return Add(flag, value, target, std::move(text))->capture_default_str();
  }
  // One of `choices`, which stand for the value on the page, too.
  template <typename T>
  CLI::Option* AddChoice(const char* flag, const std::vector<std::string>& choices, T& target, std::string text) const {
    const std::string value = absl::StrJoin(choices, "|");
    return AddWithDefault(flag, value.c_str(), target, std::move(text))->check(CLI::IsMember(choices));
  }
  CLI::Option* AddSwitch(const char* flag, bool& target, std::string text) const {
    return app_.add_flag(flag, target, std::move(text))->group(name_);
  }

 private:
  CLI::App& app_;
  const char* name_;
};

}  // namespace hydrant

#endif  // HYDRANT_API_FLAGS_FLAG_GROUP_H_
