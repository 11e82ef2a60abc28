// KnownSplit cuts text as the published split patterns do, by hand: many times faster than a regular expression, and
// compared with it in the tests.
//
// Thread: any.
#ifndef HYDRANT_MODEL_TOKENIZER_KNOWN_SPLIT_H_
#define HYDRANT_MODEL_TOKENIZER_KNOWN_SPLIT_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hydrant {

enum class KnownSplit : uint8_t { kNone, kGpt2, kLlama3, kQwen2 };

// The one whose pattern this is, to the letter; kNone if it is another.
KnownSplit FindKnownSplit(std::string_view pattern);

// Where the first match of the pattern in `text` ends; matches follow each other without a gap. REQUIRES: `text` is valid
// UTF-8 and not empty; `split` is not kNone.
size_t FirstWordEnd(KnownSplit split, std::string_view text);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TOKENIZER_KNOWN_SPLIT_H_
