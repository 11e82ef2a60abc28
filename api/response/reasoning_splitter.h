// ReasoningSplitter parts what a model thinks from what it says, while it writes it.
//
// Thread: any; belongs to one choice of one answer.
//
// Invariants:
//  1. However a text is cut into pieces, the same reasoning and the same rest come out of it.
//  2. White space around the reasoning, and between it and the rest, is neither's. Text without reasoning passes as it is.
//  3. Text that may still become a marker is held back, as is white space that may be the last; all else passes at once.
//  4. Time and memory are linear in the text, in however many pieces it comes.
#ifndef HYDRANT_API_RESPONSE_REASONING_SPLITTER_H_
#define HYDRANT_API_RESPONSE_REASONING_SPLITTER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "api/response/channel_reader.h"

namespace hydrant {

// The texts around reasoning, without white space in them.
struct ReasoningMarkers {
  std::string open;   // "<think>"; empty: there is no reasoning
  std::string close;  // "</think>"
  std::string lead;   // stands between `close` and the rest, if it is there; of most models nothing
};

class ReasoningSplitter {
 public:
  using Output = ChannelReader::Output;

  // All is text.
  ReasoningSplitter() = default;
  // `opened`: the text begins within reasoning, whether or not it says `open` once more. Else it has reasoning if it begins with
  // `open`: a marker that comes later is text.
  ReasoningSplitter(ReasoningMarkers markers, bool opened);
  // The text is messages, some of which are reasoning.
  explicit ReasoningSplitter(ChannelReader channels) : channels_(std::move(channels)) {}

  // ChannelReader::TokenAt, where the text is messages.
  void TokenAt(int64_t byte) {
    if (channels_.has_value()) channels_->TokenAt(byte);
  }
  Output Push(std::string_view text);
  // Ends the text: returns what Push held back. Reasoning that was never closed goes to the end.
  Output Finish();

  // Whether a text of this splitter can have reasoning.
  bool may_reason() const { return channels_.has_value() || !markers_.open.empty(); }
  // Bytes of the text so far of which is known what they are, while reasoning may still come.
  int64_t decided() const { return channels_.has_value() ? channels_->decided() : reasoning_end(); }
  // Bytes of the text so far that are not held back.
  int64_t passed() const {
    return channels_.has_value() ? channels_->decided() : pushed_ - static_cast<int64_t>(held_.size());
  }
  // Whether a byte is reasoning or its markers. REQUIRES: byte < decided(), or Finish was called.
  bool IsReasoning(int64_t byte) const {
    return channels_.has_value() ? channels_->IsReasoning(byte) : reasoning_end() > 0;
  }
  // Bytes of the text so far up to the end of its reasoning, markers included; 0: none, as far as is known. REQUIRES: it is no messages.
  int64_t reasoning_end() const;
  // Nothing that follows is reasoning.
  bool past_reasoning() const {
    if (channels_.has_value()) return false;
    return state_ == State::kLead || state_ == State::kText;
  }

 private:
  enum class State : uint8_t {
    kBegin,      // whether `open` comes is not known
    kReasoning,  // within it
    kLead,       // behind `close`, before the first of the rest
    kText,
  };

  // Each takes from held_ what it can decide, and returns whether the next state has begun.
  bool ReadBegin();
  bool ReadReasoning(Output* output);
  bool ReadLead();
  void PassReasoning(std::string_view text, Output* output);

  std::optional<ChannelReader> channels_;
  ReasoningMarkers markers_;
  bool opened_ = false;
  State state_ = State::kText;
  std::string held_;
  size_t searched_ = 0;    // bytes of held_ that are white space, at its front
  std::string blank_;      // white space after reasoning, which more of it may follow
  bool reasoned_ = false;  // reasoning was passed on
  bool lead_read_ = false;
  int64_t pushed_ = 0;      // bytes
  int64_t closed_end_ = 0;  // of them, up to the end of `close`
};

}  // namespace hydrant

#endif  // HYDRANT_API_RESPONSE_REASONING_SPLITTER_H_
