#include "api/flags/help_page.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace hydrant {
namespace {

constexpr size_t kColumn = 38;          // where descriptions begin, or after the longest flag
constexpr char kGeneral[] = "Options";  // CLI11's name for the group of flags without one

// "--ui" and "--no-ui" are one flag: "--[no-]ui". Other names are listed.
std::string NamesOf(const CLI::Option& option) {
  const std::vector<std::string>& names = option.get_lnames();
  const bool has_opposite = std::any_of(
      names.begin(), names.end(), [&](const std::string& name) { return name == absl::StrCat("no-", names.front()); });
  if (has_opposite) return absl::StrCat("--[no-]", names.front());
  return absl::StrCat("--", absl::StrJoin(names, ", --"));
}

std::string FlagAndValue(const CLI::Option& option) {
  // What CLI11 appends to it, the checks of the value, is its business.
  const std::string type = option.get_type_name();
  const std::string value = type.substr(0, type.find(':'));
  return absl::StrCat("  ", NamesOf(option), value.empty() ? "" : " ", value);
}

std::string Line(const CLI::Option& option, size_t column) {
  std::string line = FlagAndValue(option);
  line.resize(std::max(line.size() + 2, column), ' ');
  absl::StrAppend(&line, option.get_description());
  if (!option.get_default_str().empty()) absl::StrAppend(&line, " (default: ", option.get_default_str(), ")");
  return line + "\n";
}

}  // namespace

std::string HelpPage::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  const bool all = mode == CLI::AppFormatMode::All;
  std::string usage = name;
  for (const CLI::Option* option : app->get_options([](const CLI::Option* o) { return o->get_positional(); })) {
    absl::StrAppend(&usage, " ", absl::AsciiStrToUpper(option->get_name()));
  }
  std::string page = absl::StrCat(usage, " [flags]\n\n", app->get_description(), "\n");
  std::vector<std::string> groups = app->get_groups();
  std::stable_partition(groups.begin(), groups.end(), [](const std::string& group) { return group != kGeneral; });
  const auto shown = [&](const CLI::Option* option) {
    return option->nonpositional() && (all || essential_.contains(absl::StrCat("--", option->get_lnames().front())));
  };
  size_t column = kColumn;
  for (const CLI::Option* option : app->get_options(shown)) column = std::max(column, FlagAndValue(*option).size() + 2);
  for (const std::string& group : groups) {
    std::string lines;
    for (const CLI::Option* option : app->get_options(shown)) {
      if (option->get_group() == group) lines += Line(*option, column);
    }
    if (!lines.empty()) absl::StrAppend(&page, "\n", group == kGeneral ? "General" : group, "\n", lines);
  }
  if (!all) absl::StrAppend(&page, "\n", name, " --help-all lists every flag.\n");
  return page;
}

}  // namespace hydrant
