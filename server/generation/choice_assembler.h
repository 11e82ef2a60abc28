// ChoiceAssembler turns one sequence's tokens into what the client sees of it: text in whole characters, cut at stop
// strings, what it thought apart from what it says, log-probabilities with their offsets, token ids, and how it ended.
//
// Thread: the connection's strand.
#ifndef HYDRANT_SERVER_GENERATION_CHOICE_ASSEMBLER_H_
#define HYDRANT_SERVER_GENERATION_CHOICE_ASSEMBLER_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "api/request/generation_fields.h"
#include "api/response/answer.h"
#include "api/response/reasoning_splitter.h"
#include "model/tokenizer/tokenizer.h"
#include "server/engine/engine_port.h"
#include "server/generation/stop_matcher.h"

namespace hydrant {

class ChoiceAssembler {
 public:
  // `request`, its `stops` and `prompt` outlive the assembler. `added_special_tokens`: leading tokens of the prompt that the server
  // added; an echo does not show them. `show_specials`: an echo shows the text of special tokens (they were sent as
  // text).
  ChoiceAssembler(const Tokenizer& tokenizer, const GenerationFields& request, const StopStrings& stops,
                  const std::vector<int32_t>& prompt, int32_t added_special_tokens, bool show_specials,
                  ReasoningSplitter splitter = {});

  void AddPromptLogprobs(const PromptEvent& event);
  // REQUIRES: !finished().
  void AddToken(const TokenEvent& event);
  // Ends it from outside.
  void Abort() { finish_ = FinishReason::kAbort; }

  bool finished() const { return finish_ != FinishReason::kNone; }
  FinishReason finish_reason() const { return finish_; }
  const StopReason& stop_reason() const { return stop_reason_; }
  int32_t generated() const { return generated_; }
  // How many of generated() begin in reasoning or its markers.
  int32_t reasoning_tokens() const { return reasoning_tokens_; }
  // Bytes of what was generated before the text that is no reasoning: known once there is some.
  int64_t text_begin() const { return text_begin_; }

  // The text and its facts that have become visible since the last call of Take.
  struct Output {
    std::string reasoning;
    std::string text;
    std::vector<PositionLogprobs> logprobs;  // empty unless asked for
    std::vector<int32_t> token_ids;
  };
  bool has_output() const { return pending_tokens_ > 0; }
  int32_t pending_tokens() const { return pending_tokens_; }
  Output Take();
  // That text, which Take is still to give.
  const Output& untaken() const { return output_; }
  // The log-probabilities of all prompt tokens; the first has none. Once, after the first token or the end has come.
  // REQUIRES: the request asks for prompt_logprobs.
  std::vector<PositionLogprobs> TakePromptLogprobs();

 private:
  void EchoPrompt();
  // It was closed because there may be no more tokens.
  bool IsClosed() const;
  // With the `best` best; `result` may have more, and may be null. `offset`: characters of the text before the token's own.
  PositionLogprobs MakeLogprobs(int32_t id, const SampleResult* result, int32_t best, int32_t offset) const;
  const SampleResult* PromptResult(size_t token) const;
  void Show(std::string_view text);
  void Pass(const ReasoningSplitter::Output& output);
  void ShowLast();
  void CountFirst();  // of token_bytes_. REQUIRES: what it is is known

  const Tokenizer& tokenizer_;
  const GenerationFields& request_;
  const std::vector<int32_t>& prompt_;
  const int32_t added_special_tokens_;
  const bool show_specials_;

  Detokenizer detokenizer_;
  StopMatcher matcher_;
  ReasoningSplitter splitter_;
  int64_t bytes_ = 0;  // of the tokens' text, as the detokenizer gave it
  std::deque<int64_t>
      token_bytes_;  // where the text of tokens begins of which it is not known whether they are reasoning
  int32_t reasoning_tokens_ = 0;
  bool has_text_ = false;  // the splitter passed some
  int64_t text_begin_ = 0;
  std::vector<SampleResult> prompt_results_;  // of prompt tokens 1, 2, …
  bool echoed_ = false;
  int32_t characters_ = 0;  // of the choice's text before the next token, without what the detokenizer holds back
  int32_t generated_ = 0;
  FinishReason finish_ = FinishReason::kNone;
  StopReason stop_reason_;
  Output output_;
  int32_t pending_tokens_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_GENERATION_CHOICE_ASSEMBLER_H_
