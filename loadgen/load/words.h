// Prompts of about a number of tokens for servers whose tokenizer is not known: short common words with a blank before
// each, one token apiece in every byte-pair vocabulary trained on English.
//
// Thread: any (pure functions).
#ifndef HYDRANT_LOADGEN_LOAD_WORDS_H_
#define HYDRANT_LOADGEN_LOAD_WORDS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "loadgen/load/random.h"

namespace hydrant {

// Appends `count` words drawn evenly.
void AppendWords(Random* random, int32_t count, std::string* out);
// A guess of how many tokens English text has: four characters each, the usual rule. At least 1.
int32_t GuessTokens(std::string_view text);

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_LOAD_WORDS_H_
