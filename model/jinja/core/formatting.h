// Python's two ways to put values into a string: the % operator and str.format.
//
// Thread: the one that renders.
#ifndef HYDRANT_MODEL_JINJA_CORE_FORMATTING_H_
#define HYDRANT_MODEL_JINJA_CORE_FORMATTING_H_

#include "model/jinja/core/builtins.h"
#include "model/jinja/core/value.h"

namespace hydrant::jinja {

// format % values; REQUIRES: format is a string.
Value PercentFormat(Workspace& workspace, const Value& format, const Value& values);
// format.format(…); REQUIRES: format is a string.
Value BraceFormat(Workspace& workspace, const Value& format, const Arguments& arguments);

// One value in a field of `[[fill]align][sign][#][0][width][,][.precision][type]`.
struct FieldStyle {
  Text fill = Text(" ", Origin::kTemplate);
  char align = '\0';  // < > ^ =
  char sign = '-';
  bool alternate = false;
  bool thousands = false;
  size_t width = 0;
  int precision = -1;  // -1: none
  char type = '\0';
};
Text FormatField(Workspace& workspace, const Value& value, const FieldStyle& style);

// `text` in so many characters, which `fill` makes up on the sides that `align` says.
Text Pad(Workspace& workspace, const Text& text, size_t width, char align, const Text& fill);

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_CORE_FORMATTING_H_
