#include "server/generation/choice_assembler.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "model/text/utf8.h"

namespace hydrant {

ChoiceAssembler::ChoiceAssembler(const Tokenizer& tokenizer, const GenerationFields& request, const StopStrings& stops,
                                 const std::vector<int32_t>& prompt, int32_t added_special_tokens, bool show_specials,
                                 ReasoningSplitter splitter)
    : tokenizer_(tokenizer),
      request_(request),
      prompt_(prompt),
      added_special_tokens_(added_special_tokens),
      show_specials_(show_specials),
      detokenizer_(tokenizer, request.skip_special_tokens, /*first=*/false),
      matcher_(stops, request.include_stop_str_in_output),
      splitter_(std::move(splitter)) {}

void ChoiceAssembler::AddPromptLogprobs(const PromptEvent& event) {
  assert(event.begin == static_cast<int32_t>(prompt_results_.size()) + 1);
  prompt_results_.insert(prompt_results_.end(), event.results.begin(), event.results.end());
}

const SampleResult* ChoiceAssembler::PromptResult(size_t token) const {
  return token == 0 || token > prompt_results_.size() ? nullptr : &prompt_results_[token - 1];
}

PositionLogprobs ChoiceAssembler::MakeLogprobs(int32_t id, const SampleResult* result, int32_t best,
                                               int32_t offset) const {
  PositionLogprobs position;
  position.id = id;
  position.bytes = tokenizer_.TokenBytes(id);
  position.text_offset = offset;
  position.begin = position.end = bytes_;
  if (result == nullptr) return position;
  position.logprob = result->logprob;
  position.rank = result->rank;
  const size_t count = std::min(result->top.size(), static_cast<size_t>(best));
  position.top.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const TokenLogprob& top = result->top[i];
    position.top.push_back({top.id, top.logprob, std::string(tokenizer_.TokenBytes(top.id))});
  }
  return position;
}

void ChoiceAssembler::EchoPrompt() {
  echoed_ = true;
  if (!request_.echo) return;
  Detokenizer detokenizer(tokenizer_, request_.skip_special_tokens && !show_specials_);
  for (size_t i = 0; i < prompt_.size(); ++i) {
    if (request_.logprobs >= 0) {
      const int32_t offset = characters_ + detokenizer.CharactersBefore(prompt_[i]);
      output_.logprobs.push_back(MakeLogprobs(prompt_[i], PromptResult(i), request_.logprobs, offset));
    }
    if (static_cast<int32_t>(i) < added_special_tokens_) continue;
    const std::string piece = detokenizer.Push(prompt_[i]);
    characters_ += CountCharacters(piece);
    output_.text += piece;
  }
  const std::string rest = detokenizer.Finish();
  characters_ += CountCharacters(rest);
  output_.text += rest;
  if (request_.prompt_logprobs < 0) prompt_results_ = {};
}

// What is neither part of a stop string nor may become one.
void ChoiceAssembler::Show(std::string_view text) {
  Pass(splitter_.Push(text));
  while (!token_bytes_.empty() && token_bytes_.front() < splitter_.decided()) CountFirst();
  if (splitter_.past_reasoning()) token_bytes_.clear();
}

void ChoiceAssembler::Pass(const ReasoningSplitter::Output& output) {
  if (!has_text_ && !output.text.empty()) {
    has_text_ = true;
    text_begin_ = splitter_.passed() - static_cast<int64_t>(output.text.size());
  }
  output_.reasoning += output.reasoning;
  output_.text += output.text;
}

void ChoiceAssembler::ShowLast() {
  Pass(splitter_.Finish());
  // What a stop string took is not shown, but was thought all the same.
  while (!token_bytes_.empty()) CountFirst();
}

void ChoiceAssembler::CountFirst() {
  reasoning_tokens_ += splitter_.IsReasoning(token_bytes_.front()) ? 1 : 0;
  token_bytes_.pop_front();
}

bool ChoiceAssembler::IsClosed() const {
  const bool is_whole = EndsByItself(finish_) && finish_ != FinishReason::kStop;
  return is_whole && request_.constraint.has_value() && request_.constraint->close_at_max_tokens &&
         generated_ == request_.max_tokens;
}

void ChoiceAssembler::AddToken(const TokenEvent& event) {
  assert(!finished());
  if (!echoed_) EchoPrompt();
  finish_ = event.finish;
  if (event.token >= 0) {
    ++generated_;
    output_.token_ids.push_back(event.token);
    // The token that stops a sequence is counted and reported, but is not text.
    const bool is_text = event.finish != FinishReason::kStop || request_.include_stop_str_in_output;
    if (event.logprobs != nullptr && request_.logprobs >= 0) {
      const int32_t offset =
          characters_ + detokenizer_.CharactersBefore(is_text ? std::optional(event.token) : std::nullopt);
      output_.logprobs.push_back(MakeLogprobs(event.token, event.logprobs.get(), request_.logprobs, offset));
    }
    const std::string piece = is_text ? detokenizer_.Push(event.token) : std::string();
    characters_ += CountCharacters(piece);
    if (!splitter_.past_reasoning()) token_bytes_.push_back(bytes_);
    // What the detokenizer held back comes before it.
    const std::string_view special = tokenizer_.IsSpecial(event.token) ? tokenizer_.TokenBytes(event.token) : "";
    if (!special.empty() && piece.ends_with(special))
      splitter_.TokenAt(bytes_ + static_cast<int64_t>(piece.size() - special.size()));
    bytes_ += static_cast<int64_t>(piece.size());
    if (!output_.logprobs.empty()) output_.logprobs.back().end = bytes_;
    Show(generated_ > request_.min_tokens ? matcher_.Push(piece) : matcher_.PushUnsearched(piece));
  }
  ++pending_tokens_;
  if (!matcher_.matched() && finished()) {
    if (event.stop_token >= 0) stop_reason_ = event.stop_token;
    if (IsClosed()) {
      finish_ = FinishReason::kText;
      stop_reason_ = ClosedAtLimit();
    }
    Show(matcher_.Push(detokenizer_.Finish()));
    if (!matcher_.matched()) Show(matcher_.Finish());
  }
  if (matcher_.matched()) {
    finish_ = FinishReason::kStop;
    stop_reason_ = matcher_.match();
  }
  if (finished()) ShowLast();
}

std::vector<PositionLogprobs> ChoiceAssembler::TakePromptLogprobs() {
  assert(request_.prompt_logprobs >= 0);
  std::vector<PositionLogprobs> positions;
  positions.reserve(prompt_.size());
  for (size_t i = 0; i < prompt_.size(); ++i) {
    positions.push_back(MakeLogprobs(prompt_[i], PromptResult(i), request_.prompt_logprobs, 0));
  }
  prompt_results_ = {};
  return positions;
}

ChoiceAssembler::Output ChoiceAssembler::Take() {
  pending_tokens_ = 0;
  return std::exchange(output_, {});
}

}  // namespace hydrant
