#include "api/response/channel_reader.h"

#include <algorithm>
#include <utility>

#include "model/text/text_pieces.h"

namespace hydrant {
namespace {

constexpr std::string_view kFor = "to=";
// Functions of the request; other names are of tools that a model has by itself.
constexpr std::string_view kFunctions = "functions.";
// What the format `harmony` begins a call with, as most models write it: others name the function before the channel.
constexpr std::string_view kCallChannel = "commentary to=";

// Up to white space or a tag.
std::string_view Word(std::string_view text) { return text.substr(0, text.find_first_of(" \t\r\n<")); }

std::string_view WithoutBlank(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
}

}  // namespace

ChannelReader::ChannelReader(ChannelMarks marks, Begin begin)
    : marks_(std::move(marks)), state_(begin == Begin::kHead ? State::kHead : State::kBody) {
  if (begin == Begin::kThought && !marks_.thought.empty()) SetReasoning(true, 0);
}

void ChannelReader::SetReasoning(bool reasons, int64_t from) {
  if (std::exchange(thinks_, reasons) != reasons) borders_.push_back(from);
}

bool ChannelReader::IsReasoning(int64_t byte) const {
  return (std::upper_bound(borders_.begin(), borders_.end(), byte) - borders_.begin()) % 2 == 1;
}

ChannelReader::Output ChannelReader::Push(std::string_view text) {
  pushed_ += static_cast<int64_t>(text.size());
  held_.append(text);
  Output output;
  while (state_ == State::kHead ? ReadHead(&output) : ReadBody(&output)) {
  }
  while (!tokens_.empty() && tokens_.front() < pushed_ - static_cast<int64_t>(held_.size())) tokens_.pop_front();
  return output;
}

ChannelReader::Output ChannelReader::Finish() {
  Output output;
  if (state_ != State::kHead) {
    Pass(held_, &output);
  } else if (first_ && Find(marks_.channel) == std::string::npos) {
    output.text = held_;
  }
  held_.clear();
  return output;
}

bool ChannelReader::MayMark(size_t at) const {
  const int64_t byte = pushed_ - static_cast<int64_t>(held_.size() - at);
  return !marks_.are_tokens || std::binary_search(tokens_.begin(), tokens_.end(), byte);
}

size_t ChannelReader::Find(std::string_view mark) const {
  size_t at = held_.find(mark);
  while (at != held_.npos && !MayMark(at)) at = held_.find(mark, at + 1);
  return at;
}

bool ChannelReader::IsHead(std::string_view head, bool whole) const {
  if (head.size() > kHeadBytesMax + (whole ? 0 : marks_.message.size() - 1)) return false;
  const size_t size = head.size();
  head = WithoutBlank(head);
  const bool may_mark = head.empty() || MayMark(size - head.size());
  const auto begins = [&](std::string_view mark) {
    return head.starts_with(mark) || (!whole && mark.starts_with(head));
  };
  if (!first_) return may_mark && begins(marks_.start);
  return (may_mark && begins(marks_.channel)) || begins(kFor);
}

bool ChannelReader::ReadHead(Output* output) {
  const size_t end = Find(marks_.message);
  const bool whole = end != std::string::npos;
  const std::string_view head = std::string_view(held_).substr(0, end);
  if (!IsHead(head, whole)) {
    if (!ended_.empty()) {
      state_ = State::kBody;
      Pass(std::exchange(ended_, {}), output);
      return true;
    }
    state_ = State::kText;
    begins_ = !first_;
    is_call_ = false;
    if (!first_) held_.erase(0, held_.find_first_not_of(kWhiteSpace));
    return true;
  }
  if (!whole) return false;
  BeginMessage(head, output);
  held_.erase(0, end + marks_.message.size());
  return true;
}

void ChannelReader::BeginMessage(std::string_view head, Output* output) {
  const size_t mark = Find(marks_.channel), channel = mark < head.size() ? mark : head.npos;
  const size_t to = head.find(kFor);
  const std::string_view name = channel == head.npos ? "" : Word(head.substr(channel + marks_.channel.size()));
  const std::string_view whom = to == head.npos ? "" : Word(head.substr(to + kFor.size()));
  is_call_ = whom.starts_with(kFunctions);
  ended_.clear();
  SetReasoning(!is_call_ && !name.empty() && name == marks_.thought, pushed_ - static_cast<int64_t>(held_.size()));
  state_ = State::kBody;
  begins_ = true;
  if (thinks_) return;
  if (is_call_) {
    output->text.append(marks_.channel).append(kCallChannel).append(whom).append(marks_.message);
    begins_ = false;
  } else if (!whom.empty()) {
    Pass(head, output);
    Pass(marks_.message, output);
  }
}

bool ChannelReader::ReadBody(Output* output) {
  if (held_.empty()) return false;
  if (state_ == State::kText) {
    Pass(std::exchange(held_, {}), output);
    return false;
  }
  const size_t end = Find(marks_.end), next = Find(marks_.start);
  if (end == held_.npos && next == held_.npos) {
    const size_t held = std::max(HeldBytes(held_, marks_.end), HeldBytes(held_, marks_.start));
    Pass(std::string_view(held_).substr(0, held_.size() - held), output);
    held_.erase(0, held_.size() - held);
    return false;
  }
  Pass(std::string_view(held_).substr(0, std::min(end, next)), output);
  ended_ = end < next && !thinks_ && !is_call_ ? marks_.end : "";
  held_.erase(0, end < next ? end + marks_.end.size() : next);
  SetReasoning(false, pushed_ - static_cast<int64_t>(held_.size()));
  blank_.clear();
  state_ = State::kHead;
  first_ = false;
  return true;
}

// White space around reasoning is nobody's; a line stands between two messages.
void ChannelReader::Pass(std::string_view text, Output* output) {
  if (!thinks_) {
    if (!text.empty() && std::exchange(begins_, false) && said_) output->text += "\n\n";
    said_ |= !text.empty() && !is_call_;
    output->text.append(text);
    return;
  }
  if (begins_) text = WithoutBlank(text);
  if (text.empty()) return;
  if (std::exchange(begins_, false) && thought_) output->reasoning += '\n';
  const size_t last = text.find_last_not_of(kWhiteSpace);
  if (last == std::string_view::npos) {
    blank_.append(text);
    return;
  }
  thought_ = true;
  output->reasoning.append(blank_).append(text.substr(0, last + 1));
  blank_ = text.substr(last + 1);
}

}  // namespace hydrant
