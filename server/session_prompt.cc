#include "server/session_prompt.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace hydrant {
namespace {

void Append(std::string_view text, const Tokenizer& tokenizer, std::vector<int32_t>* ids) {
  const std::vector<int32_t> more = tokenizer.Encode(text, {.add_special_tokens = false});
  ids->insert(ids->end(), more.begin(), more.end());
}

ApiResult<TurnPrompt> AppendTo(const SessionPast& past, const CompletionPrompt& said, const Tokenizer& tokenizer) {
  TurnPrompt prompt{past.tokens, past.hidden_specials, past.text};
  if (said.is_ids) {
    prompt.ids.insert(prompt.ids.end(), said.ids.begin(), said.ids.end());
  } else {
    Append(said.text, tokenizer, &prompt.ids);
  }
  if (prompt.ids.size() == past.tokens.size()) return EmptyPrompt();
  if (prompt.text.has_value()) {
    prompt.text->append(said.is_ids ? tokenizer.Decode(said.ids, /*skip_special_tokens=*/false) : said.text);
  }
  return prompt;
}

// Where the prompt's text begins with the past's: the past's tokens, and those of the rest.
void KeepTokens(const SessionPast& past, const Tokenizer& tokenizer, TurnPrompt* prompt) {
  if (!past.text.has_value()) return;
  const std::string_view text = *prompt->text;
  if (text.starts_with(*past.text)) {
    prompt->ids = past.tokens;
    Append(text.substr(past.text->size()), tokenizer, &prompt->ids);
    return;
  }
  // The last token has no KV yet: where the client goes on differently from there, nothing that was computed is lost.
  if (!past.text_before_last.has_value()) return;
  const std::string_view before = std::string_view(*past.text).substr(0, *past.text_before_last);
  if (!text.starts_with(before)) return;
  prompt->ids.assign(past.tokens.begin(), past.tokens.end() - 1);
  Append(text.substr(before.size()), tokenizer, &prompt->ids);
}

}  // namespace

ApiResult<TurnPrompt> MakeTurnPrompt(const CompletionRequest& request, const SessionPast* past,
                                     const Tokenizer& tokenizer) {
  const CompletionPrompt& said = request.prompts.front();
  if (request.session_append) return AppendTo(*past, said, tokenizer);
  TurnPrompt prompt;
  if (said.is_ids) {
    prompt.ids = said.ids;
    prompt.text = tokenizer.Decode(said.ids, /*skip_special_tokens=*/false);
    return prompt;
  }
  prompt.text = said.text;
  prompt.ids = tokenizer.Encode(said.text, {.add_special_tokens = request.add_special_tokens});
  if (request.add_special_tokens) prompt.hidden_specials = tokenizer.leading_specials();
  if (past == nullptr || GoesOn(prompt.ids, past) || prompt.hidden_specials != past->hidden_specials) return prompt;
  KeepTokens(*past, tokenizer, &prompt);
  return prompt;
}

bool GoesOn(const std::vector<int32_t>& ids, const SessionPast* past) {
  if (past == nullptr || static_cast<size_t>(past->computed) >= ids.size()) return false;
  return std::equal(past->tokens.begin(), past->tokens.begin() + past->computed, ids.begin());
}

}  // namespace hydrant
