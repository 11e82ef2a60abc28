// Normalizer changes text before it is cut into words: composition, letter case, white space, as tokenizer.json says.
//
// Thread: any (immutable).
#ifndef HYDRANT_MODEL_TOKENIZER_NORMALIZER_H_
#define HYDRANT_MODEL_TOKENIZER_NORMALIZER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/tokenizer/split_regex.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/tokenizer_spec.h"

namespace hydrant {

class Normalizer {
 public:
  // `file` is for messages.
  static absl::StatusOr<Normalizer> Create(const std::vector<NormalizerStep>& steps, std::string_view file);

  bool empty() const { return steps_.empty(); }
  // No text becomes more than so many times as long, in bytes.
  double growth() const { return growth_; }

  // The normalised text, linear in `text` but for O(n log n) in runs of combining marks. Bytes that are not UTF-8 stay. The
  // ranges (ascending, disjoint) move along: one whose border lies inside characters that change together grows by them, and
  // those that come to overlap become one.
  std::string Apply(std::string_view text, std::vector<ByteRange>& ranges) const;

 private:
  struct Step {
    NormalizerStep what;
    std::unique_ptr<SplitRegex> regex;
  };
  std::vector<Step> steps_;
  double growth_ = 1;
};

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };
// REQUIRES: valid UTF-8.
std::string Normalized(std::string_view text, NormalForm form);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TOKENIZER_NORMALIZER_H_
