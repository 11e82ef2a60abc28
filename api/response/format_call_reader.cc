#include "api/response/format_call_reader.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <variant>

#include "model/grammar/notation/tool_format.h"
#include "model/text/str_cat.h"
#include "model/text/text_pieces.h"

namespace hydrant {

using grammar::CallEvent;
using grammar::Grammar;
using grammar::Region;
using PieceKind = AnswerPiece::Kind;

namespace {

// Bytes that the grammar reads at once: a text that it refuses somewhere is read again byte by byte.
constexpr size_t kReadBytes = 256;

std::shared_ptr<const Grammar> ReadingGrammar(std::string_view format, bool begins_only) {
  grammar::GrammarSpec spec;
  spec.kind = grammar::GrammarKind::kToolCalls;
  spec.text = StrCat(R"({"format":")", format, R"(","choice":")", begins_only ? "required" : "auto", R"("})");
  spec.white_space_max = 255;
  spec.keys_may_repeat = true;
  grammar::Fuel fuel;
  auto made = Grammar::Compile(spec, fuel);
  return std::move(std::get<std::shared_ptr<Grammar>>(made));
}

// A grammar of the format with states of its own. What it is made of is compiled when it is first asked for.
std::shared_ptr<Grammar> GrammarOf(const grammar::ToolFormat& data) {
  static std::mutex mutex;
  static std::map<std::string_view, std::shared_ptr<const grammar::GrammarSource>> sources;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const grammar::GrammarSource>& source = sources[data.name];
  if (source == nullptr) source = ReadingGrammar(data.name, /*begins_only=*/data.trigger.empty())->source();
  return std::make_shared<Grammar>(source);
}

}  // namespace

FormatCallReader::FormatCallReader(std::string_view format, bool hands_over,
                                   std::shared_ptr<const grammar::ArgumentTypes> types)
    : hands_over_(hands_over), types_(std::move(types)) {
  const grammar::ToolFormat& data = grammar::FindReadFormats(format).front();
  is_json_ = data.style == grammar::ArgumentStyle::kJson;
  in_lines_ = data.value_end.starts_with('\n');
  trigger_ = data.trigger;
  reader_ = NewReader();
  grammar_ = GrammarOf(data);
  state_ = grammar_->Begin();
}

grammar::CallReader FormatCallReader::NewReader() const {
  return grammar::CallReader(/*loose=*/true, types_.get(), in_lines_);
}

void FormatCallReader::BeginAnew() {
  held_.clear();
  end_bytes_ = 0;
  in_list_ = false;
  name_.clear();
  untold_.clear();
  told_ = false;
  reader_ = NewReader();
  state_ = grammar_->Begin();
  passes_all_ = trigger_.empty();
}

bool FormatCallReader::IsInPlainText() const {
  return held_.empty() && !told_ && !trigger_.empty() && reader_.region() == Region::kText;
}

size_t FormatCallReader::Advance(std::string_view text) {
  if (grammar_->Advance(state_, text, &regions_) == Grammar::Verdict::kAllowed) return text.size();
  std::vector<grammar::ByteRegion> all;
  while (all.size() < text.size() &&
         grammar_->Advance(state_, text.substr(all.size(), 1), &regions_) == Grammar::Verdict::kAllowed) {
    all.push_back(regions_.front());
  }
  regions_ = std::move(all);
  return regions_.size();
}

size_t FormatCallReader::Push(std::string_view text, AnswerPieces* pieces) {
  for (size_t at = 0; at < text.size();) {
    if (passes_all_) {
      AddPiece(PieceKind::kText, text.substr(at), pieces);
      break;
    }
    if (IsInPlainText()) {
      const size_t mark = std::min(text.find(trigger_.front(), at), text.size());
      AddPiece(PieceKind::kText, text.substr(at, mark - at), pieces);
      at = mark;
      if (at == text.size()) break;
    }
    const std::string_view next = text.substr(at, kReadBytes);
    const size_t read = Advance(next);
    for (size_t i = 0; i < read; ++i) Take(next[i], regions_[i], pieces);
    at += read;
    if (read == next.size()) continue;
    if (IsInPlainText() && read == 0) {
      // Every byte may come here; one that is too much work is text.
      AddPiece(PieceKind::kText, next.substr(0, 1), pieces);
      ++at;
    } else if (GiveUp(pieces)) {
      return at;
    }
  }
  return text.size();
}

void FormatCallReader::Take(char byte, const grammar::ByteRegion& region, AnswerPieces* pieces) {
  held_ += byte;
  events_.clear();
  const size_t recent = reader_.undecided() + 1;
  reader_.Push({&byte, 1}, {&region, 1}, events_);
  TakeEvents(recent, pieces);
  const bool may_tell = is_json_ || reader_.argument_whole() || (told_ && reader_.passes_value());
  if (!untold_.empty() && may_tell) Tell(pieces);
  const size_t undecided = reader_.undecided();
  if (told_) {
    // What stands around the arguments of a call that was told of is nobody's text.
    held_.erase(0, held_.size() - undecided);
  } else if (reader_.region() == Region::kEnd) {
    end_bytes_ = held_.size() - undecided;
  } else {
    held_.erase(0, std::exchange(end_bytes_, 0));
  }
}

void FormatCallReader::TakeEvents(size_t recent, AnswerPieces* pieces) {
  // Bytes of text in what is held, and those that may become some; before them stands markup.
  size_t behind = reader_.undecided();
  for (const CallEvent& event : events_) behind += event.kind == CallEvent::Kind::kText ? event.text.size() : 0;
  for (const CallEvent& event : events_) {
    switch (event.kind) {
      case CallEvent::Kind::kText:
        AddPiece(PieceKind::kText, event.text, pieces);
        behind -= event.text.size();
        held_.erase(0, held_.size() - behind);
        end_bytes_ = 0;
        in_list_ = false;
        break;
      case CallEvent::Kind::kCall:
        name_ = event.text;
        break;
      case CallEvent::Kind::kArguments:
        untold_ += event.text;
        break;
      case CallEvent::Kind::kCallEnd:
        Tell(pieces);
        EndCall(/*whole=*/true, pieces);
        in_list_ = true;
        held_.erase(0, held_.size() - (reader_.region() == Region::kEnd ? recent : behind));
        break;
    }
  }
}

void FormatCallReader::Tell(AnswerPieces* pieces) {
  if (!std::exchange(told_, true)) pieces->push_back({PieceKind::kCall, std::exchange(name_, {}), 0, ""});
  has_calls_ = true;
  AddPiece(PieceKind::kArguments, std::exchange(untold_, {}), pieces);
}

void FormatCallReader::EndCall(bool whole, AnswerPieces* pieces) {
  pieces->push_back({whole ? PieceKind::kCallEnd : PieceKind::kCallCut, "", 0, ""});
  told_ = false;
}

std::string FormatCallReader::TakeHeld() { return std::exchange(held_, {}); }

// Free text refuses bytes alone that are in no UTF-8: what it has begun is no mark.
bool FormatCallReader::IsInText() {
  grammar::GrammarState after = state_;
  return Grammar::InText(state_) && grammar_->Advance(after, "a") == Grammar::Verdict::kAllowed;
}

bool FormatCallReader::GiveUp(AnswerPieces* pieces) {
  if (!told_ && IsInText()) {
    const std::string held = held_.substr(end_bytes_);
    BeginAnew();
    AddPiece(PieceKind::kText, held, pieces);
    return false;
  }
  if (told_) {
    const bool whole = is_json_ && ArgumentsAreWhole();
    if (!is_json_) CutArgument();
    Tell(pieces);
    EndCall(whole, pieces);
  }
  // What closes calls that are whole.
  if (grammar_->Accepts(state_)) held_.clear();
  std::string held = std::exchange(held_, {});
  if (end_bytes_ > 0) {
    const size_t closed = held.find_last_of("}>)", end_bytes_ - 1);
    held.erase(0, closed == held.npos ? 0 : closed + 1);
    BeginAnew();
    return ReadAgain(held, pieces);
  }
  const bool goes_on = in_list_ && GoesOn(held);
  const size_t mark = goes_on ? 0 : trigger_.empty() ? (has_calls_ ? held.npos : 0) : held.rfind(trigger_);
  BeginAnew();
  if (!hands_over_ || mark == held.npos || held.empty()) {
    AddPiece(PieceKind::kText, held, pieces);
    return false;
  }
  held_ = held.substr(mark);
  return true;
}

// Whether that begins like one more call of a list, which the grammar then refused.
bool FormatCallReader::GoesOn(std::string_view held) const {
  const char between = trigger_.empty() ? ';' : ',';
  const size_t begin = std::min(held.find_first_not_of(kWhiteSpace), held.size());
  held.remove_prefix(begin);
  const bool parted = held.starts_with(between);
  if (!parted && !trigger_.empty()) return false;
  held.remove_prefix(parted ? 1 : 0);
  held.remove_prefix(std::min(held.find_first_not_of(kWhiteSpace), held.size()));
  return held.starts_with('{');
}

bool FormatCallReader::ReadAgain(const std::string& text, AnswerPieces* pieces) {
  const size_t read = Push(text, pieces);
  if (read == text.size()) return false;
  held_ += text.substr(read);
  return true;
}

// What came of an argument that is not whole: a string is one that does not end.
void FormatCallReader::CutArgument() {
  events_.clear();
  reader_.Cut(events_);
  for (const CallEvent& event : events_) untold_ += event.text;
  if (!reader_.argument_whole()) held_.clear();
}

// Whether what ends a call may come next.
bool FormatCallReader::ArgumentsAreWhole() {
  for (int byte = 0; byte < 256; ++byte) {
    grammar::GrammarState after = state_;
    const char next = static_cast<char>(byte);
    const bool may_come = grammar_->Advance(after, {&next, 1}, &regions_) == Grammar::Verdict::kAllowed;
    if (may_come && regions_.front().region == Region::kEnd) return true;
  }
  return false;
}

bool FormatCallReader::Finish(AnswerPieces* pieces) {
  if (passes_all_) return false;
  const bool accepts = grammar_->Accepts(state_);
  events_.clear();
  reader_.Finish(accepts, events_);
  TakeEvents(reader_.undecided(), pieces);
  // The answer ends within what closes a call.
  held_.erase(0, std::exchange(end_bytes_, 0));
  if (!accepts) return GiveUp(pieces);
  held_.clear();
  return false;
}

}  // namespace hydrant
