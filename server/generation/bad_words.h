// Which sequences of tokens a request's bad words are.
//
// Thread: any (pure).
#ifndef HYDRANT_SERVER_GENERATION_BAD_WORDS_H_
#define HYDRANT_SERVER_GENERATION_BAD_WORDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "api/wire/api_error.h"
#include "model/tokenizer/tokenizer.h"

namespace hydrant {

// As in vLLM: every word, without the spaces it begins with, at the beginning of a text and, where that begins with another
// token and has as many of them, after a space. Other ways to spell it in tokens are not found. Linear in the words.
// Error: 400 for a word that has no token.
ApiResult<std::vector<std::vector<int32_t>>> EncodeBadWords(const std::vector<std::string>& words,
                                                            const Tokenizer& tokenizer);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_GENERATION_BAD_WORDS_H_
