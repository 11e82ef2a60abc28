#include "api/request/schema_pattern.h"

#include <cstddef>

namespace hydrant {
namespace {

// Where the class that begins at `begin` has its ']', or pattern.size().
size_t ClassEnd(std::string_view pattern, size_t begin) {
  for (size_t i = begin + 1; i < pattern.size(); ++i) {
    if (pattern[i] == ']') return i;
    if (pattern[i] == '\\') ++i;
  }
  return pattern.size();
}

}  // namespace

std::string_view PatternFault(std::string_view pattern) {
  size_t groups = 0;        // that are open
  bool repeatable = false;  // what stands before
  for (size_t i = 0; i < pattern.size(); ++i) {
    switch (pattern[i]) {
      case '\\':
        if (++i == pattern.size()) return "ends in a single \\";
        repeatable = true;
        break;
      case '[':
        i = ClassEnd(pattern, i);
        if (i == pattern.size()) return "has a [ without its ]";
        repeatable = true;
        break;
      case '(':
        ++groups;
        if (i + 1 < pattern.size() && pattern[i + 1] == '?') ++i;  // says what kind of group
        repeatable = false;
        break;
      case ')':
        if (groups == 0) return "has a ) without its (";
        --groups;
        repeatable = true;
        break;
      case '|':
        repeatable = false;
        break;
      case '*':
      case '+':
      case '?':
        if (!repeatable) return "repeats nothing";
        break;
      default:
        repeatable = true;
    }
  }
  return groups > 0 ? "has a ( without its )" : "";
}

}  // namespace hydrant
