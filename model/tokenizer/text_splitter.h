// TextSplitter runs the stages of a pre-tokenizer: text in, the words that merges never cross out.
//
// Thread: any (immutable).
#ifndef HYDRANT_MODEL_TOKENIZER_TEXT_SPLITTER_H_
#define HYDRANT_MODEL_TOKENIZER_TEXT_SPLITTER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/tokenizer/known_split.h"
#include "model/tokenizer/split_regex.h"
#include "model/tokenizer/tokenizer_spec.h"

namespace hydrant {

class TextSplitter {
 public:
  // `file` is for messages.
  static absl::StatusOr<TextSplitter> Create(const std::vector<SplitStage>& stages, std::string_view file);

  // The words of no text have more than so many times its bytes.
  double growth() const { return growth_; }

  // Memory that one Encode call reuses between its Split calls. Thread: one at a time.
  class Scratch {
   public:
    explicit Scratch(const TextSplitter& splitter);

   private:
    friend class TextSplitter;
    struct Range {
      size_t begin, end;
      bool match;
    };
    std::vector<std::unique_ptr<SplitRegex::Matcher>> matchers_;  // one per stage; null where it has no regex
    std::vector<Range> ranges_;
    std::vector<std::string_view> words_, next_;
    std::vector<std::unique_ptr<std::string>> owned_;  // pieces that are no longer part of the text
  };

  // The words of `text`, in order; `first`: nothing stands before it, which SplitStage::Prefix::kFirst asks. REQUIRES: valid
  // UTF-8. Valid until the next call with this scratch or until `text` goes.
  const std::vector<std::string_view>& Split(std::string_view text, bool first, Scratch& scratch) const;

 private:
  struct Stage {
    SplitStage::Kind kind;
    SplitStage::Behavior behavior;
    bool invert;
    SplitStage::Prefix prefix;
    bool cuts;
    std::string literal;
    std::unique_ptr<SplitRegex> regex;  // of kRegex, but for a known one
    KnownSplit known;
  };

  void RunStage(size_t stage, std::string_view piece, bool first, Scratch& scratch) const;
  void FindRanges(size_t stage, std::string_view piece, Scratch& scratch) const;
  static std::string_view MarkSpaces(const Stage& stage, std::string_view piece, bool first, Scratch& scratch);
  static void EmitPieces(const Stage& stage, std::string_view piece, Scratch& scratch);

  std::vector<Stage> stages_;
  double growth_ = 1;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TOKENIZER_TEXT_SPLITTER_H_
