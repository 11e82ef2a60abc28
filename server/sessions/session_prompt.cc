#include "server/sessions/session_prompt.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "api/response/reasoning_splitter.h"

namespace hydrant {
namespace {

// The plain ranges of what was said in bytes [begin, end), counted from `begin`; those that touch as one.
std::vector<ByteRange> ClientRangesWithin(const RequestPrompt& said, size_t begin, size_t end) {
  std::vector<ByteRange> ranges;
  for (const ByteRange& range : said.client_ranges) {
    const size_t from = std::max(range.begin, begin), to = std::min(range.end, end);
    if (from >= to) continue;
    if (!ranges.empty() && ranges.back().end == from - begin) {
      ranges.back().end = to - begin;
    } else {
      ranges.push_back({from - begin, to - begin});
    }
  }
  return ranges;
}

bool Overlap(std::span<const ByteRange> a, std::span<const ByteRange> b) {
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].end <= b[j].begin) {
      ++i;
    } else if (b[j].end <= a[i].begin) {
      ++j;
    } else {
      return true;
    }
  }
  return false;
}

// What was said from byte `begin` on.
void Append(const RequestPrompt& said, size_t begin, const Tokenizer& tokenizer, size_t ids_max,
            std::vector<int32_t>* ids) {
  const std::vector<ByteRange> client_ranges = ClientRangesWithin(said, begin, said.text.size());
  const std::vector<int32_t> more =
      tokenizer.Encode(std::string_view(said.text).substr(begin),
                       {.add_special_tokens = false, .client_ranges = client_ranges, .ids_max = ids_max});
  ids->insert(ids->end(), more.begin(), more.end());
}

ApiResult<TurnPrompt> AppendTo(const SessionPast& past, const RequestPrompt& said, const Tokenizer& tokenizer,
                               size_t ids_max) {
  TurnPrompt prompt{{past.added_special_tokens, past.text, past.client_ranges, /*continues=*/true}, past.tokens};
  if (said.is_ids) {
    prompt.ids.insert(prompt.ids.end(), said.ids.begin(), said.ids.end());
  } else {
    Append(said, 0, tokenizer, ids_max, &prompt.ids);
  }
  if (prompt.ids.size() == past.tokens.size()) return EmptyPrompt();
  if (prompt.text.has_value()) {
    prompt.text->append(said.is_ids ? tokenizer.Decode(said.ids, /*skip_special_tokens=*/false) : said.text);
  }
  return prompt;
}

// Whether a client's bytes are now the ones that were a client's when the past's tokens were made of them. An answer is the
// client's in a chat, which sends it back, and not in a raw prompt: there only its special tokens count, which in what a
// client says would be text.
bool SamePlain(const SessionPast& past, const RequestPrompt& said) {
  const std::vector<ByteRange> all = ClientRangesWithin(said, 0, said.text.size());
  return ClientRangesWithin(said, 0, past.prompt_bytes) == past.client_ranges && !Overlap(all, past.answer_specials);
}

// Where the prompt's text begins with the past's: the past's tokens, and those of the rest. False: it does not.
bool KeepTokens(const SessionPast& past, const RequestPrompt& said, const Tokenizer& tokenizer, size_t ids_max,
                TurnPrompt* prompt) {
  if (!past.text.has_value() || !SamePlain(past, said)) return false;
  const std::string_view text = said.text;
  if (text.starts_with(*past.text)) {
    prompt->ids = past.tokens;
    Append(said, past.text->size(), tokenizer, ids_max, &prompt->ids);
    return true;
  }
  // The last token has no KV yet: where the client goes on differently from there, nothing that was computed is lost.
  if (!past.text_before_last.has_value()) return false;
  const std::string_view before = std::string_view(*past.text).substr(0, *past.text_before_last);
  if (!text.starts_with(before)) return false;
  prompt->ids.assign(past.tokens.begin(), past.tokens.end() - 1);
  Append(said, before.size(), tokenizer, ids_max, &prompt->ids);
  return true;
}

std::string_view WithoutSpaceAtEnd(std::string_view text) {
  const size_t last = text.find_last_not_of(" \t\r\n");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

// A text that begins with reasoning, in its two parts.
struct Parts {
  std::string reasoning, text;
  bool reasons = false;
};
Parts PartsOf(std::string_view text, const ReasoningMarkers& markers, bool opened) {
  ReasoningSplitter splitter(markers, opened);
  ReasoningSplitter::Output first = splitter.Push(text), last = splitter.Finish();
  return {first.reasoning + last.reasoning, first.text + last.text, splitter.reasoning_end() > 0};
}

// The same where the last answer began with reasoning that the prompt's text lacks, as most templates leave out what was
// thought in earlier turns. The past has it all the same: its tokens are what the answer was made of.
bool KeepReasoningTokens(const SessionPast& past, const RequestPrompt& said, const Tokenizer& tokenizer, size_t ids_max,
                         TurnPrompt* prompt) {
  if (said.reasoning.open.empty() || !past.text.has_value()) return false;
  const std::string_view all = *past.text;
  std::string_view before = all.substr(0, past.prompt_bytes);
  // A prompt that opens the reasoning does so for an answer alone.
  const bool opened = WithoutSpaceAtEnd(before).ends_with(said.reasoning.open);
  const Parts was = PartsOf(all.substr(past.prompt_bytes), said.reasoning, opened);
  if (!was.reasons || was.text.empty()) return false;
  if (opened) before = before.substr(0, WithoutSpaceAtEnd(before).size() - said.reasoning.open.size());
  const std::string_view text = said.text;
  if (!text.starts_with(before) || ClientRangesWithin(said, 0, before.size()) != past.client_ranges) return false;
  // What is shown of special tokens would be text where a client says it.
  for (const ByteRange& special : past.answer_specials) {
    if (special.end > all.size() - was.text.size()) return false;
  }
  // The template may have repeated the reasoning, or written that there was none.
  const Parts is = PartsOf(text.substr(before.size()), said.reasoning, /*opened=*/false);
  if (!is.reasoning.empty() && is.reasoning != was.reasoning) return false;
  std::string_view rest = text.substr(text.size() - is.text.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t\r\n"), rest.size()));
  const std::string_view trimmed = WithoutSpaceAtEnd(was.text);
  if (trimmed.empty() || !rest.starts_with(trimmed)) return false;
  rest.remove_prefix(rest.starts_with(was.text) ? was.text.size() : trimmed.size());
  prompt->ids = past.tokens;
  Append(said, text.size() - rest.size(), tokenizer, ids_max, &prompt->ids);
  return true;
}

}  // namespace

TurnPrompt PromptAlone(const RequestPrompt& said, bool add_special_tokens, const Tokenizer& tokenizer, size_t ids_max) {
  TurnPrompt prompt;
  if (said.is_ids) {
    prompt.ids = said.ids;
    return prompt;
  }
  const std::vector<ByteRange> client_ranges = ClientRangesWithin(said, 0, said.text.size());
  prompt.ids = tokenizer.Encode(
      said.text, {.add_special_tokens = add_special_tokens, .client_ranges = client_ranges, .ids_max = ids_max});
  if (add_special_tokens) prompt.added_special_tokens = tokenizer.leading_specials();
  return prompt;
}

ApiResult<TurnPrompt> MakeTurnPrompt(const RequestPrompt& said, const GenerationFields& fields, const SessionPast* past,
                                     const Tokenizer& tokenizer, size_t ids_max) {
  if (fields.session_append) return AppendTo(*past, said, tokenizer, ids_max);
  TurnPrompt prompt = PromptAlone(said, fields.add_special_tokens, tokenizer, ids_max);
  prompt.client_ranges = ClientRangesWithin(said, 0, said.text.size());
  prompt.text = said.is_ids ? tokenizer.Decode(said.ids, /*skip_special_tokens=*/false) : said.text;
  prompt.continues = Continues(prompt.ids, past);
  if (prompt.continues || said.is_ids || past == nullptr || prompt.added_special_tokens != past->added_special_tokens) {
    return prompt;
  }
  // What it kept are the past's tokens; nothing need be new after them.
  const bool keeps = KeepTokens(*past, said, tokenizer, ids_max, &prompt) ||
                     KeepReasoningTokens(*past, said, tokenizer, ids_max, &prompt);
  prompt.continues = keeps && past->said() < prompt.ids.size();
  return prompt;
}

size_t TokensKept(const RequestPrompt& said, const SessionPast& past, const Tokenizer& tokenizer) {
  if (past.tokens.empty()) return 0;
  if (said.is_ids) return Continues(said.ids, &past) ? past.tokens.size() : 0;
  // One id is enough to see that there is something after the past.
  TurnPrompt prompt;
  const bool keeps = KeepTokens(past, said, tokenizer, /*ids_max=*/1, &prompt) ||
                     KeepReasoningTokens(past, said, tokenizer, /*ids_max=*/1, &prompt);
  return keeps ? past.tokens.size() : 0;
}

bool Continues(const std::vector<int32_t>& ids, const SessionPast* past) {
  if (past == nullptr || past->tokens.empty() || past->said() >= ids.size()) return false;
  return std::equal(past->tokens.begin(), past->tokens.begin() + static_cast<std::ptrdiff_t>(past->said()),
                    ids.begin());
}

}  // namespace hydrant
