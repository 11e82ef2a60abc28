#include "api/response/format_call_reader.h"

#include <utility>
#include <variant>

#include "model/grammar/notation/tool_format.h"
#include "model/text/str_cat.h"

namespace hydrant {

using grammar::CallEvent;
using grammar::Grammar;

FormatCallReader::FormatCallReader(std::string_view format) {
  grammar::GrammarSpec spec;
  spec.kind = grammar::GrammarKind::kToolCalls;
  spec.text = StrCat(R"({"format":")", format, R"(","choice":"auto"})");
  grammar::Fuel fuel;
  auto made = Grammar::Compile(spec, fuel);
  grammar_ = std::move(std::get<std::shared_ptr<Grammar>>(made));
  state_ = grammar_->Begin();
  begins_only_ = grammar::FindToolFormat(format)->trigger.empty();
}

void FormatCallReader::AddText(std::string_view text, Output& output) {
  if (text.empty()) return;
  if (output.empty() || !output.back().name.empty() || output.back().closes_call) output.emplace_back();
  output.back().text += text;
}

void FormatCallReader::TakeMarkup(size_t bytes, Output& output) {
  if (bytes > 0) output.push_back({held_.substr(0, bytes), "", "", true});
  held_.erase(0, bytes);
}

void FormatCallReader::Take(const std::vector<CallEvent>& events, Output& output) {
  // What is held back of text behind a call that ends here.
  size_t behind = reader_.undecided();
  for (const CallEvent& event : events) behind += event.kind == CallEvent::Kind::kText ? event.text.size() : 0;
  for (const CallEvent& event : events) {
    switch (event.kind) {
      case CallEvent::Kind::kText:
        TakeMarkup(held_.size() - behind, output);
        AddText(event.text, output);
        held_.erase(0, event.text.size());
        behind -= event.text.size();
        break;
      case CallEvent::Kind::kCall:
        call_ = {"", event.text, "", false};
        break;
      case CallEvent::Kind::kArguments:
        call_.arguments += event.text;
        break;
      case CallEvent::Kind::kCallEnd:
        call_.text = held_.substr(0, held_.size() - behind);
        held_.erase(0, call_.text.size());
        output.push_back(std::exchange(call_, {}));
        break;
    }
  }
}

void FormatCallReader::GiveUp(Output& output) {
  AddText(std::exchange(held_, {}), output);
  call_ = {};
  reader_ = grammar::CallReader(/*loose=*/true);
  state_ = grammar_->Begin();
  passes_all_ = begins_only_;
}

FormatCallReader::Output FormatCallReader::Push(std::string_view text) {
  Output output;
  std::vector<grammar::ByteRegion> regions;
  std::vector<CallEvent> events;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view byte = text.substr(i, 1);
    if (!passes_all_ && grammar_->Advance(state_, byte, &regions) != Grammar::Verdict::kAllowed) {
      GiveUp(output);
      // From the beginning every byte may come.
      if (!passes_all_) grammar_->Advance(state_, byte, &regions);
    }
    if (passes_all_) {
      AddText(text.substr(i), output);
      break;
    }
    held_ += byte;
    events.clear();
    reader_.Push(byte, regions, events);
    Take(events, output);
  }
  return output;
}

FormatCallReader::Output FormatCallReader::Finish() {
  Output output;
  std::vector<CallEvent> events;
  reader_.Finish(grammar_->Accepts(state_), events);
  Take(events, output);
  const bool in_call = !call_.name.empty();
  if (in_call || !grammar_->Accepts(state_)) {
    AddText(std::exchange(held_, {}), output);
  } else {
    TakeMarkup(held_.size(), output);
  }
  return output;
}

}  // namespace hydrant
