#include "server/generation/bad_words.h"

#include <algorithm>
#include <utility>

namespace hydrant {

ApiResult<std::vector<std::vector<int32_t>>> EncodeBadWords(const std::vector<std::string>& words,
                                                            const Tokenizer& tokenizer) {
  std::vector<std::vector<int32_t>> sequences;
  for (const std::string& word : words) {
    const std::string bare = word.substr(std::min(word.find_first_not_of(" \t\n\r\f\v"), word.size()));
    std::vector<int32_t> first = tokenizer.Encode(bare, {.add_special_tokens = false});
    if (first.empty()) return InvalidField("bad_words", "Each of 'bad_words' must have at least one token.");
    std::vector<int32_t> spaced = tokenizer.Encode(" " + bare, {.add_special_tokens = false});
    const bool differs = !spaced.empty() && spaced.front() != first.front() && spaced.size() == first.size();
    sequences.push_back(std::move(first));
    if (differs) sequences.push_back(std::move(spaced));
  }
  return sequences;
}

}  // namespace hydrant
