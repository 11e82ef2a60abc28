// TextRewriter copies a text with changes, front to back, and moves ranges of it along.
//
// Thread: one.
#ifndef HYDRANT_MODEL_TOKENIZER_TEXT_REWRITER_H_
#define HYDRANT_MODEL_TOKENIZER_TEXT_REWRITER_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/tokenizer/tokenizer.h"

namespace hydrant {

class TextRewriter {
 public:
  // `ranges`: ascending, disjoint; overwritten by Finish.
  TextRewriter(std::string_view from, std::vector<ByteRange>& ranges) : from_(from), ranges_(ranges) {
    out_.reserve(from.size() + from.size() / 8);
  }

  size_t at() const { return at_; }  // the text before it is done

  // The next `bytes` as they are.
  void Keep(size_t bytes) {
    Move(bytes, out_.size() + bytes, /*kept=*/true);
    out_.append(from_.substr(at_, bytes));
    at_ += bytes;
  }

  // `by` instead of the next `bytes`, which may be none: then it belongs to no range that begins here.
  void Replace(size_t bytes, std::string_view by) {
    Move(bytes, out_.size() + by.size(), /*kept=*/false);
    out_.append(by);
    at_ += bytes;
  }

  // Keeps the rest.
  std::string Finish() {
    Keep(from_.size() - at_);
    while (begins_ < ranges_.size()) ranges_[begins_++].begin = out_.size();
    while (ends_ < ranges_.size()) ranges_[ends_++].end = out_.size();
    size_t kept = 0;
    for (const ByteRange& range : ranges_) {
      if (range.begin >= range.end) continue;
      if (kept > 0 && range.begin < ranges_[kept - 1].end) {
        ranges_[kept - 1].end = range.end;
      } else {
        ranges_[kept++] = range;
      }
    }
    ranges_.resize(kept);
    return std::move(out_);
  }

 private:
  // Borders in the next `bytes`: where they were if these are kept, else a begin moves to the front and an end to the end.
  void Move(size_t bytes, size_t out_end, bool kept) {
    for (; begins_ < ranges_.size() && ranges_[begins_].begin < at_ + bytes; ++begins_) {
      ByteRange& range = ranges_[begins_];
      range.begin = kept ? out_.size() + range.begin - at_ : out_.size();
    }
    for (; ends_ < begins_ && ranges_[ends_].end <= at_ + bytes; ++ends_) {
      ByteRange& range = ranges_[ends_];
      range.end = kept ? out_.size() + range.end - at_ : out_end;
    }
  }

  std::string_view from_;
  std::vector<ByteRange>& ranges_;
  size_t at_ = 0;
  size_t begins_ = 0, ends_ = 0;  // ranges whose begin, and whose end, has been moved
  std::string out_;
};

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TOKENIZER_TEXT_REWRITER_H_
