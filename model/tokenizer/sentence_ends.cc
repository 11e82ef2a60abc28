#include "model/tokenizer/sentence_ends.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <string_view>

namespace hydrant {
namespace {

constexpr std::string_view kEnds[] = {".", "!", "?", "\n", "\u3002", "\uff01", "\uff1f", "\uff0e", "\uff61"};
constexpr size_t kWordBits = 64;

bool HoldsEnd(std::string_view text) {
  return std::any_of(std::begin(kEnds), std::end(kEnds),
                     [&](std::string_view end) { return text.find(end) != std::string_view::npos; });
}

}  // namespace

SentenceEnds::SentenceEnds(const Tokenizer& tokenizer) {
  ends_.reserve(static_cast<size_t>(tokenizer.vocab_size()));
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    ends_.push_back(tokenizer.IsSpecial(id) || HoldsEnd(tokenizer.TokenBytes(id)));
  }
}

std::vector<uint64_t> SentenceEnds::SegmentStarts(std::span<const int32_t> ids) const {
  std::vector<uint64_t> starts((ids.size() + kWordBits - 1) / kWordBits);
  size_t begin = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool behind_end = i > 0 && Ends(ids[i - 1]) && !Ends(ids[i]);
    if (i > 0 && !behind_end && i - begin < kSegmentTokens) continue;
    begin = i;
    starts[i / kWordBits] |= uint64_t{1} << (i % kWordBits);
  }
  return starts;
}

}  // namespace hydrant
