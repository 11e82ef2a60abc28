#include "server/turn_answer.h"

#include <utility>

namespace hydrant {

void TurnAnswer::Add(int32_t token) {
  text_ += last_;
  between_ = !detokenizer_.pending();
  last_ = detokenizer_.Push(token);
  tokens_.push_back(token);
}

SessionPast TurnAnswer::PastWith(const std::vector<int32_t>& prompt, const std::optional<std::string>& prompt_text,
                                 bool drop_last) {
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
  past.text->append(*prompt_text).append(text_);
  if (!tokens_.empty() && !drop_last && between_) past.text_before_last = past.text->size();
  if (!drop_last) past.text->append(last_);
  past.text->append(detokenizer_.Finish());
  return past;
}

}  // namespace hydrant
