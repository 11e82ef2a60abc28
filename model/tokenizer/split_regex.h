// SplitRegex is one regular expression of a pre-tokenizer, written for Oniguruma (which Hugging Face `tokenizers` uses) and
// run by PCRE2. Patterns come from model files, so only constructs that mean the same in both are let through, the rest is
// refused by name, and a pattern that is found to need more than a bounded effort on hostile text (split_effort.h) is refused
// when it is built.
//
// Thread: any (immutable); each thread brings its own Matcher.
#ifndef HYDRANT_MODEL_TOKENIZER_SPLIT_REGEX_H_
#define HYDRANT_MODEL_TOKENIZER_SPLIT_REGEX_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace hydrant {

class SplitRegex {
 public:
  // `file` is for messages.
  static absl::StatusOr<SplitRegex> Create(std::string_view pattern, std::string_view file);

  SplitRegex(SplitRegex&&) noexcept;
  SplitRegex& operator=(SplitRegex&&) noexcept;
  ~SplitRegex();

  struct Match {
    size_t begin = 0;
    size_t end = 0;
  };

  // Scratch memory for matching. Thread: one at a time.
  class Matcher {
   public:
    explicit Matcher(const SplitRegex& regex);
    ~Matcher();
    Matcher(const Matcher&) = delete;
    Matcher& operator=(const Matcher&) = delete;

    // The first match in `text` at or after `from`. REQUIRES: `text` is valid UTF-8 and `from` starts a character or is its
    // end. Where the effort allowed is used up there is no match: the rest of the text stays in one piece.
    bool Find(std::string_view text, size_t from, Match& match);

   private:
    const SplitRegex& regex_;
    struct Scratch;
    std::unique_ptr<Scratch> scratch_;
  };

 private:
  struct Code;
  explicit SplitRegex(std::unique_ptr<Code> code);

  std::unique_ptr<Code> code_;
};

// The pattern in PCRE2's words, or an error that names the construct. Exposed for its test.
absl::StatusOr<std::string> TranslateSplitPattern(std::string_view pattern, std::string_view file);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TOKENIZER_SPLIT_REGEX_H_
