// UnicodeClass answers the questions about characters that tokenizers ask.
//
// Thread: any.
#ifndef HYDRANT_MODEL_TEXT_UNICODE_CLASS_H_
#define HYDRANT_MODEL_TEXT_UNICODE_CLASS_H_

#include <cstdint>

namespace hydrant {

// How the published split patterns see a character.
enum class SplitClass : uint8_t { kLetter, kNumber, kSpace, kOther };
SplitClass SplitClassOf(uint32_t code_point);  // \p{L}, \p{N}, White_Space, the rest

bool IsWhiteSpace(uint32_t code_point);
bool IsNumber(uint32_t code_point);       // category N
bool IsMark(uint32_t code_point);         // category M
bool IsPunctuation(uint32_t code_point);  // category P and ASCII punctuation, symbols among it
// \w of the regular expressions Hugging Face decides single_word with: letters, marks, decimal digits and connectors.
bool IsWordCharacter(uint32_t code_point);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TEXT_UNICODE_CLASS_H_
