// What methods of str and filters on strings share.
//
// Thread: the one that renders.
#ifndef HYDRANT_MODEL_JINJA_STRING_OPERATIONS_H_
#define HYDRANT_MODEL_JINJA_STRING_OPERATIONS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/jinja/value.h"

namespace hydrant::jinja {

// Without the characters of `chars` at its ends, or white space where `chars` is none or undefined.
Text Stripped(Workspace& workspace, const Text& text, const Value& chars, bool left, bool right);
// The first `times_max` occurrences replaced, all where it is negative.
Text Replaced(Workspace& workspace, const Text& text, const Text& old, const Text& by, int64_t times_max);
// str.center, which puts the odd blank elsewhere than a format does.
Text Centered(Workspace& workspace, const Text& text, size_t width, const Text& fill);

// The parts between separators, at most `times_max` cuts where it is not negative.
std::vector<ByteRange> SplitBy(Workspace& workspace, std::string_view text, std::string_view separator,
                               int64_t times_max, bool from_right);
std::vector<ByteRange> SplitSpace(Workspace& workspace, std::string_view text, int64_t times_max, bool from_right);

struct Line {
  size_t begin = 0, end = 0;
  size_t next = 0;  // behind its line break
};
std::vector<Line> Lines(Workspace& workspace, std::string_view text);

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_STRING_OPERATIONS_H_
