// Upper and lower case, as Python's str has them: one letter may become several, and each keeps its origin.
//
// Thread: any.
#ifndef HYDRANT_MODEL_JINJA_LIBRARY_LETTER_CASE_H_
#define HYDRANT_MODEL_JINJA_LIBRARY_LETTER_CASE_H_

#include "model/jinja/core/text.h"

namespace hydrant::jinja {

Text Lower(const Text& text);
Text Upper(const Text& text);
Text Capitalize(const Text& text);  // str.capitalize
Text Title(const Text& text);       // str.title: the first letter of every run of letters
Text TitleWords(const Text& text);  // the filter: of every word between blanks, hyphens and opening brackets
Text SwapCase(const Text& text);

enum class LetterCase : uint8_t { kNone, kLower, kUpper, kTitle };
LetterCase CaseOf(uint32_t code_point);

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_LIBRARY_LETTER_CASE_H_
