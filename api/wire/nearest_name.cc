#include "api/wire/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

constexpr size_t kTypedMax = 64;  // longer than any name
constexpr size_t kPrefixMin = 4;  // "--m" begins too many names
constexpr size_t kCompletionEdits = 2;

// Optimal string alignment distance, three rows at a time.
size_t Edits(std::string_view from, std::string_view to) {
  std::vector<size_t> before(to.size() + 1), last(to.size() + 1), row(to.size() + 1);
  for (size_t j = 0; j <= to.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= from.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (size_t j = 1; j <= to.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[to.size()];
}

}  // namespace

std::string_view NearestName(std::string_view typed, std::span<const std::string> names) {
  typed = typed.substr(0, kTypedMax);
  std::string_view nearest;
  size_t least = 1 + typed.size() / 4;
  for (const std::string& name : names) {
    size_t edits = Edits(typed, name);
    if (typed.size() >= kPrefixMin && name.starts_with(typed)) edits = std::min(edits, kCompletionEdits);
    if (edits < least || (edits == least && nearest.empty())) {
      least = edits;
      nearest = name;
    }
  }
  return nearest;
}

std::string UnknownFlag(std::span<const std::string> arguments, std::span<const std::string> known,
                        std::string_view help, std::span<const FlagAdvice> advices) {
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    const std::string flag = argument.substr(0, argument.find('='));
    if (!flag.starts_with("--") || std::find(known.begin(), known.end(), flag) != known.end()) continue;
    for (const FlagAdvice& row : advices) {
      if (row.flag == flag) return absl::StrCat(flag, ": there is no such flag; ", std::string(row.advice));
    }
    const std::string_view nearest = NearestName(flag, known);
    return nearest.empty() ? absl::StrCat(flag, ": there is no such flag; ", std::string(help), " lists them")
                           : absl::StrCat(flag, ": did you mean ", std::string(nearest), "?");
  }
  return "";
}

}  // namespace hydrant
