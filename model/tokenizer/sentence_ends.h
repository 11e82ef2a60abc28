// SentenceEnds knows of every token whether a sentence may end with it, and divides prompts into segments by that: runs of
// tokens that a cut of the cache keeps or drops as one thought (EvictionPolicy's pins).
//
// Thread: any (immutable).
#ifndef HYDRANT_MODEL_TOKENIZER_SENTENCE_ENDS_H_
#define HYDRANT_MODEL_TOKENIZER_SENTENCE_ENDS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "model/tokenizer/tokenizer.h"

namespace hydrant {

class SentenceEnds {
 public:
  // The longest segment: some lines of code, or a sentence that goes on for long.
  static constexpr int32_t kSegmentTokens = 48;

  explicit SentenceEnds(const Tokenizer& tokenizer);

  // A special token, or one whose text has a full stop, a question mark, an exclamation mark (ASCII's, or those of Chinese and
  // Japanese) or a line feed. False for ids that the model knows and the tokenizer does not. REQUIRES: id >= 0.
  bool Ends(int32_t id) const {
    const auto at = static_cast<size_t>(id);
    return at < ends_.size() && ends_[at];
  }

  // Bit p of the words: a segment begins with ids[p]. One does behind an end, unless another end follows it, and where the one before is
  // kSegmentTokens long. It depends on what stands before p alone, and on ids[p].
  std::vector<uint64_t> SegmentStarts(std::span<const int32_t> ids) const;

 private:
  std::vector<bool> ends_;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TOKENIZER_SENTENCE_ENDS_H_
