#include "model/grammar/call_reader.h"

#include <utility>

#include "model/grammar/regex/char_class.h"

namespace hydrant::grammar {
namespace {

std::string Escaped(std::string_view text) { return EncodedText(text, TextEncoding::kJsonString); }
std::string Quoted(std::string_view text) { return '"' + Escaped(text) + '"'; }

}  // namespace

void CallReader::Add(CallEvent::Kind kind, std::string_view text, std::vector<CallEvent>& events) {
  const bool joins = kind == CallEvent::Kind::kText || kind == CallEvent::Kind::kArguments;
  if (joins && !events.empty() && events.back().kind == kind) {
    events.back().text += text;
  } else if (!joins || !text.empty()) {
    events.push_back({kind, std::string(text)});
  }
}

void CallReader::Push(std::string_view bytes, std::span<const ByteRegion> regions, std::vector<CallEvent>& events) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    const ByteRegion& own = regions[i];
    const bool is_free = own.region == Region::kText || own.region == Region::kString;
    const bool as_before = own.undecided == ByteRegion::kAsBefore;
    undecided_ += bytes[i];
    candidates_.push_back(is_free && own.undecided != 0 ? Region::kMarkup : own.region);
    const size_t stays = as_before ? undecided_.size() : static_cast<size_t>(own.undecided);
    const size_t decided = undecided_.size() - stays;
    for (size_t j = 0; j < decided; ++j) Take(undecided_[j], is_free ? own.region : candidates_[j], events);
    undecided_.erase(0, decided);
    candidates_.erase(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(decided));
  }
}

void CallReader::Take(char byte, Region region, std::vector<CallEvent>& events) {
  if (region != region_) Leave(region, events);
  switch (region) {
    case Region::kText:
      return Add(CallEvent::Kind::kText, {&byte, 1}, events);
    case Region::kName:
      name_ += byte;
      return;
    case Region::kArguments:
      return Add(CallEvent::Kind::kArguments, {&byte, 1}, events);
    case Region::kKey:
      if (types_ != nullptr) key_ += byte;
      return Add(CallEvent::Kind::kArguments, Escaped({&byte, 1}), events);
    case Region::kString:
      if (std::exchange(value_begins_, false) && loose_ && in_lines_ && byte == '\n') return;
      if (loose_ && !passes_value_) {
        value_ += byte;
      } else {
        Add(CallEvent::Kind::kArguments, Escaped({&byte, 1}), events);
      }
      return;
    case Region::kValue:
      return Add(CallEvent::Kind::kArguments, {&byte, 1}, events);
    case Region::kMarkup:
    case Region::kCall:
    case Region::kEnd:
      return;
  }
}

// What stands between two regions of arguments is said here. An argument without a value is an empty string: no byte of it came.
void CallReader::Leave(Region next, std::vector<CallEvent>& events) {
  const Region before = std::exchange(region_, next);
  switch (before) {
    case Region::kName:
      Add(CallEvent::Kind::kCall, name_, events);
      tool_ = std::exchange(name_, {});
      in_call_ = true;
      is_json_ = has_arguments_ = false;
      break;
    case Region::kString:
      if (loose_ && !std::exchange(passes_value_, false)) {
        Add(CallEvent::Kind::kArguments, JsonOfArgument(std::exchange(value_, {}), KindsHere()), events);
      } else {
        Add(CallEvent::Kind::kArguments, "\"", events);
      }
      break;
    case Region::kKey:
      Add(CallEvent::Kind::kArguments, "\": ", events);
      break;
    case Region::kArguments:
      is_json_ = true;
      EndCall(events);
      break;
    default:
      break;
  }
  switch (next) {
    case Region::kKey:
      key_.clear();
      if (awaits_value_) Add(CallEvent::Kind::kArguments, "\"\"", events);
      Add(CallEvent::Kind::kArguments, has_arguments_ ? ", \"" : "{\"", events);
      has_arguments_ = awaits_value_ = true;
      break;
    case Region::kString:
      awaits_value_ = false;
      value_begins_ = true;
      passes_value_ = loose_ && KindsHere() == JsonKinds::Of(JsonKind::kString);
      if (!loose_ || passes_value_) Add(CallEvent::Kind::kArguments, "\"", events);
      break;
    case Region::kValue:
      awaits_value_ = false;
      break;
    case Region::kText:
    case Region::kName:
    case Region::kCall:
    case Region::kEnd:
      EndCall(events);
      break;
    default:
      break;
  }
}

JsonKinds CallReader::KindsHere() const { return types_ == nullptr ? JsonKinds::All() : types_->Of(tool_, key_); }

void CallReader::EndCall(std::vector<CallEvent>& events) {
  if (!std::exchange(in_call_, false)) return;
  if (!is_json_) {
    if (std::exchange(awaits_value_, false)) Add(CallEvent::Kind::kArguments, "\"\"", events);
    Add(CallEvent::Kind::kArguments, has_arguments_ ? "}" : "{}", events);
  }
  Add(CallEvent::Kind::kCallEnd, "", events);
}

void CallReader::Cut(std::vector<CallEvent>& events) {
  if (passes_value_ || region_ != Region::kString) return;
  std::string text = std::exchange(value_, {});
  if (KindsHere().Has(JsonKind::kString)) {
    text = Quoted(text);
    text.pop_back();
  }
  Add(CallEvent::Kind::kArguments, text, events);
}

void CallReader::Finish(bool whole, std::vector<CallEvent>& events) {
  const bool was_text = region_ == Region::kText;
  if (whole && !was_text) Leave(Region::kMarkup, events);
  if (whole) EndCall(events);
  if (whole || was_text) Add(CallEvent::Kind::kText, std::exchange(undecided_, {}), events);
}

}  // namespace hydrant::grammar
