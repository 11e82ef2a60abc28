// Split patterns come from model files and run on text from clients. CheckSplitEffort tries one on texts made to be hard for
// it, and refuses it if more of its items are tried than grow with the text.
//
// It is a test, not a proof: PCRE2 backtracks. What is repeated in the texts is every kind of character that the pattern can
// tell from others, and every word it spells, alone, in pairs, and one after the other; a pattern whose effort explodes only
// where three kinds alternate that it spells nowhere in a row passes, and is left to SplitRegex's limit on one match.
//
// Thread: any.
#ifndef HYDRANT_MODEL_TOKENIZER_SPLIT_EFFORT_H_
#define HYDRANT_MODEL_TOKENIZER_SPLIT_EFFORT_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hydrant {

// `translated` is the pattern in PCRE2's words (TranslateSplitPattern), `pattern` as the file has it; `file` is for messages.
// Errors name the text on which it needs too much.
absl::Status CheckSplitEffort(std::string_view translated, std::string_view pattern, std::string_view file);

// The pieces that the texts repeat: one character of each kind that the pattern tells apart, by its classes or because
// it spells it, and the words it spells. An error if these are too many. Exposed for its test.
absl::StatusOr<std::vector<std::string>> SplitAlphabet(std::string_view translated, std::string_view pattern,
                                                       std::string_view file);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TOKENIZER_SPLIT_EFFORT_H_
