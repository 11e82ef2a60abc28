#include "api/response/reasoning_splitter.h"

#include <algorithm>
#include <utility>

#include "model/text/text_pieces.h"

namespace hydrant {

ReasoningSplitter::ReasoningSplitter(ReasoningMarkers markers, bool opened)
    : markers_(std::move(markers)), opened_(opened), state_(may_reason() ? State::kBegin : State::kText) {}

int64_t ReasoningSplitter::reasoning_end() const {
  if (closed_end_ > 0) return closed_end_;
  return state_ == State::kReasoning || (state_ == State::kBegin && opened_) ? pushed_ : 0;
}

ReasoningSplitter::Output ReasoningSplitter::Push(std::string_view text) {
  if (channels_.has_value()) return channels_->Push(text);
  pushed_ += static_cast<int64_t>(text.size());
  Output output;
  if (state_ == State::kText) {
    output.text = text;
    return output;
  }
  held_.append(text);
  if (state_ == State::kBegin && !ReadBegin()) return output;
  if (state_ == State::kReasoning && !ReadReasoning(&output)) return output;
  if (state_ == State::kLead && !ReadLead()) return output;
  if (state_ == State::kText) output.text = std::exchange(held_, {});
  return output;
}

ReasoningSplitter::Output ReasoningSplitter::Finish() {
  if (channels_.has_value()) return channels_->Finish();
  Output output;
  if (state_ == State::kReasoning || (state_ == State::kBegin && opened_)) {
    PassReasoning(held_, &output);
  } else {
    output.text = std::move(held_);
  }
  held_.clear();
  blank_.clear();
  return output;
}

bool ReasoningSplitter::ReadBegin() {
  searched_ = std::min(held_.find_first_not_of(kWhiteSpace, searched_), held_.size());
  const std::string_view begin = std::string_view(held_).substr(searched_);
  if (begin.size() < markers_.open.size() && std::string_view(markers_.open).starts_with(begin)) return false;
  const bool opens = begin.starts_with(markers_.open);
  if (opens) held_.erase(0, searched_ + markers_.open.size());
  state_ = opens || opened_ ? State::kReasoning : State::kText;
  searched_ = 0;
  return true;
}

bool ReasoningSplitter::ReadReasoning(Output* output) {
  // What was held before is less than a marker.
  const size_t close = held_.find(markers_.close);
  if (close == std::string::npos) {
    const size_t passed = held_.size() - HeldBytes(held_, markers_.close);
    PassReasoning(std::string_view(held_).substr(0, passed), output);
    held_.erase(0, passed);
    return false;
  }
  PassReasoning(std::string_view(held_).substr(0, close), output);
  held_.erase(0, close + markers_.close.size());
  closed_end_ = pushed_ - static_cast<int64_t>(held_.size());
  blank_.clear();
  state_ = State::kLead;
  lead_read_ = markers_.lead.empty();
  return true;
}

void ReasoningSplitter::PassReasoning(std::string_view text, Output* output) {
  if (!reasoned_) text.remove_prefix(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
  const size_t last = text.find_last_not_of(kWhiteSpace);
  if (last == std::string_view::npos) {
    blank_.append(text);
    return;
  }
  reasoned_ = true;
  output->reasoning.append(blank_).append(text.substr(0, last + 1));
  blank_ = text.substr(last + 1);
}

bool ReasoningSplitter::ReadLead() {
  held_.erase(0, held_.find_first_not_of(kWhiteSpace));
  if (held_.empty()) return false;
  if (!lead_read_) {
    const std::string_view lead = markers_.lead;
    if (held_.size() < lead.size() && lead.starts_with(held_)) return false;
    lead_read_ = true;
    if (held_.starts_with(lead)) {
      held_.erase(0, lead.size());
      held_.erase(0, held_.find_first_not_of(kWhiteSpace));
      if (held_.empty()) return false;
    }
  }
  state_ = State::kText;
  return true;
}

}  // namespace hydrant
