// What methods of str and filters on strings share. All of it counts steps for the bytes it looks at, and looks at each a
// bounded number of times.
//
// Thread: the one that renders.
#ifndef HYDRANT_MODEL_JINJA_CORE_STRING_OPERATIONS_H_
#define HYDRANT_MODEL_JINJA_CORE_STRING_OPERATIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "model/jinja/core/value.h"

namespace hydrant::jinja {

// Characters of `text`, as Python counts them.
size_t CharacterCount(Workspace& workspace, std::string_view text);
// Where the character `index` begins, in bytes; the size of `text` if it has no more.
size_t CharacterOffset(Workspace& workspace, std::string_view text, size_t index);

// The places of one string in another, from the left or from the right, none overlapping the one before: in time linear in
// both, which std::string's find and rfind are not.
class Search {
 public:
  // The strings outlive the search.
  Search(Workspace& workspace, std::string_view text, std::string_view sought, bool from_right = false);
  // Where the next one begins, in bytes; nullopt: there is none. REQUIRES: `sought` is not empty, but for the first.
  std::optional<size_t> Next();

 private:
  Workspace& workspace_;
  const bool from_right_;
  Counted<char> mirrored_text_, mirrored_sought_;  // what is searched from the right
  std::string_view text_, sought_;
  size_t at_ = 0;
};

// Without the characters of `chars` at its ends, or white space where `chars` is none or undefined.
Text Stripped(Workspace& workspace, const Text& text, const Value& chars, bool left, bool right);
// The first `times_max` occurrences replaced, all where it is negative.
Text Replaced(Workspace& workspace, const Text& text, const Text& old, const Text& by, int64_t times_max);
// str.center, which puts the odd blank elsewhere than a format does.
Text Centered(Workspace& workspace, const Text& text, size_t width, const Text& fill);

// The parts between separators, at most `times_max` cuts where it is not negative.
Counted<ByteRange> SplitBy(Workspace& workspace, std::string_view text, std::string_view separator, int64_t times_max,
                           bool from_right);
Counted<ByteRange> SplitSpace(Workspace& workspace, std::string_view text, int64_t times_max, bool from_right);

struct Line {
  size_t begin = 0, end = 0;
  size_t next = 0;  // after its line break
};
Counted<Line> Lines(Workspace& workspace, std::string_view text);

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_CORE_STRING_OPERATIONS_H_
