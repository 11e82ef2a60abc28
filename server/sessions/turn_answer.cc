#include "server/sessions/turn_answer.h"

#include <utility>

namespace hydrant {

void TurnAnswer::Add(int32_t token) {
  TakeLast();
  between_ = !detokenizer_.pending();
  last_ = detokenizer_.Push(token);
  last_is_special_ = !skip_special_tokens_ && tokenizer_.IsSpecial(token);
  tokens_.push_back(token);
}

void TurnAnswer::TakeLast() {
  const ByteRange range = {text_.size(), text_.size() + last_.size()};
  text_ += last_;
  last_.clear();
  if (!std::exchange(last_is_special_, false) || range.begin == range.end) return;
  if (!specials_.empty() && specials_.back().end == range.begin) {
    specials_.back().end = range.end;
  } else {
    specials_.push_back(range);
  }
}

SessionPast TurnAnswer::PastWith(const std::vector<int32_t>& prompt, const std::optional<std::string>& prompt_text,
                                 const std::vector<ByteRange>& client_ranges, bool drop_last) {
  SessionPast past;
  past.tokens.reserve(prompt.size() + tokens_.size());  // no more: sessions are many
  past.tokens = prompt;
  past.tokens.insert(past.tokens.end(), tokens_.begin(), tokens_.end());
  // The last token of an answer is never fed back.
  past.computed = static_cast<int32_t>(past.tokens.size()) - (tokens_.empty() ? 0 : 1);
  if (drop_last) past.tokens.pop_back();
  if (!prompt_text.has_value()) return past;
  past.text.emplace();
  past.text->reserve(prompt_text->size() + text_.size() + last_.size() + 3);
  if (!tokens_.empty() && !drop_last && between_) past.text_before_last = prompt_text->size() + text_.size();
  if (!drop_last) TakeLast();
  past.text->append(*prompt_text).append(text_).append(detokenizer_.Finish());
  past.prompt_bytes = prompt_text->size();
  past.client_ranges = client_ranges;
  for (const ByteRange& range : specials_) {
    past.answer_specials.push_back({past.prompt_bytes + range.begin, past.prompt_bytes + range.end});
  }
  return past;
}

}  // namespace hydrant
