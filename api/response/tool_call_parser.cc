#include "api/response/tool_call_parser.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/wire/json_body.h"
#include "api/wire/ordered_json.h"
#include "model/grammar/notation/tool_format.h"
#include "model/text/text_pieces.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kHermesOpen = "<tool_call>";
constexpr std::string_view kHermesClose = "</tool_call>";
constexpr std::string_view kPythonTag = "<|python_tag|>";
constexpr std::string_view kPythonStart = "<|python_start|>";
constexpr std::string_view kMistralOpen = "[TOOL_CALLS]";
constexpr std::string_view kMistralArguments = "[ARGS]";
constexpr std::string_view kMistralCallId = "[CALL_ID]";
constexpr size_t kNameBytesMax = 64;

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kWhiteSpace) + 1 - begin);
}

// Follows JSON text byte by byte: whether it is within a string, and which bytes are structure.
class JsonStrings {
 public:
  // Whether `c` stands outside of every string; a string's quotes are part of it.
  bool Outside(char c) {
    if (escaped_) {
      escaped_ = false;
    } else if (in_string_ && c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = !in_string_;
      return false;
    }
    return !in_string_;
  }
  bool in_string() const { return in_string_; }

 private:
  bool in_string_ = false;
  bool escaped_ = false;
};

// Bytes of the JSON object at the front of `text`; 0 if none ends in it.
size_t ObjectBytes(std::string_view text) {
  JsonStrings strings;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!strings.Outside(c)) continue;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) return i + 1;
  }
  return 0;
}

// Whether `json`, from which something was cut off, ends within a string.
bool EndsInString(std::string_view json) {
  JsonStrings strings;
  for (const char c : json) strings.Outside(c);
  return strings.in_string();
}

// Nullopt: it holds an integer that would become another one.
std::optional<std::string> Dump(JsonView view) {
  const std::optional<Json> json = OrderedJson(view);
  if (!json.has_value()) return std::nullopt;
  return json->dump(-1, ' ', false, Json::error_handler_t::replace);
}

constexpr std::array<std::pair<std::string_view, ToolCallFormat>, 9> kNames = {{
    {"none", ToolCallFormat::kNone},
    {"hermes", ToolCallFormat::kHermes},
    {"llama3_json", ToolCallFormat::kLlama3Json},
    {"mistral", ToolCallFormat::kMistral},
    {"mistral_args", ToolCallFormat::kMistralArgs},
    {"qwen3_coder", ToolCallFormat::kQwen3Coder},
    {"deepseek_v3", ToolCallFormat::kDeepSeekV3},
    {"deepseek_v31", ToolCallFormat::kDeepSeekV31},
    {"pythonic", ToolCallFormat::kPythonic},
}};

}  // namespace

std::optional<ToolCallFormat> ToolCallFormatOf(std::string_view name) {
  for (const auto& [own, format] : kNames) {
    if (own == name) return format;
  }
  return std::nullopt;
}

std::vector<std::string_view> ToolCallFormatNames() {
  std::vector<std::string_view> names;
  for (const auto& [name, format] : kNames) names.push_back(name);
  return names;
}

std::string_view ToolCallFormatName(ToolCallFormat format) { return kNames[static_cast<size_t>(format)].first; }

ToolCallFormat DetectToolCallFormat(std::string_view chat_template) {
  const grammar::ToolFormat* format = grammar::DetectToolFormat(chat_template);
  return format == nullptr ? ToolCallFormat::kNone : ToolCallFormatOf(format->name).value_or(ToolCallFormat::kNone);
}

std::string_view ToolCallMarker(ToolCallFormat format) {
  if (format == ToolCallFormat::kLlama3Json) return kPythonTag;
  if (format == ToolCallFormat::kPythonic) return kPythonStart;
  const grammar::ToolFormat* data = grammar::FindToolFormat(ToolCallFormatName(format));
  return data == nullptr ? std::string_view() : data->trigger;
}

bool IsFunctionName(std::string_view name) {
  if (name.empty() || name.size() > kNameBytesMax) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

ToolCallParser::ToolCallParser(ToolCallFormat format, std::string id, bool parallel)
    : format_(format), id_(std::move(id)), parallel_(parallel) {
  if (format >= ToolCallFormat::kQwen3Coder) reader_ = std::make_unique<FormatCallReader>(ToolCallFormatName(format));
}

std::string ToolCallParser::NextId() {
  // Mistral's templates refuse ids of other lengths than nine letters and digits.
  static constexpr std::string_view kAlphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  uint64_t state = std::hash<std::string>()(absl::StrCat(id_, "/", calls_++));
  const bool is_mistral = format_ == ToolCallFormat::kMistral || format_ == ToolCallFormat::kMistralArgs;
  std::string id = is_mistral ? "" : "call_";
  const size_t length = is_mistral ? 9 : 24;
  for (size_t i = 0; i < length; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    id.push_back(kAlphabet[(state >> 33) % kAlphabet.size()]);
  }
  return id;
}

bool ToolCallParser::AddNamedCall(std::string_view name, std::string_view arguments, Output* output) {
  const ApiResult<JsonBody> parsed = JsonBody::Parse(arguments, RequestLimits());
  if (!IsFunctionName(name) || !parsed.ok() || !parsed.value().root().is_object()) return false;
  std::optional<std::string> text = Dump(parsed.value().root());
  if (!text.has_value()) return false;
  output->calls.push_back({NextId(), std::string(name), *std::move(text)});
  return true;
}

bool ToolCallParser::AddCall(std::string_view json, Output* output) {
  const ApiResult<JsonBody> parsed = JsonBody::Parse(json, RequestLimits());
  if (!parsed.ok() || !parsed.value().root().is_object()) return false;
  const JsonView call = parsed.value().root();
  if (!call["name"].is_string() || !IsFunctionName(call["name"].string())) return false;
  // Models mix up the formats' two names for it. Other members alone are an answer in JSON, not a call without arguments.
  JsonView arguments = call["arguments"];
  if (arguments.absent()) arguments = call["parameters"];
  if (arguments.absent() && call.size() > 1) return false;
  if (arguments.is_string()) return AddNamedCall(call["name"].string(), arguments.string(), output);
  if (!arguments.absent() && !arguments.is_object()) return false;
  std::optional<std::string> text = arguments.absent() ? "{}" : Dump(arguments);
  if (!text.has_value()) return false;
  output->calls.push_back({NextId(), std::string(call["name"].string()), *std::move(text)});
  return true;
}

ToolCallParser::Output ToolCallParser::Read(std::string_view text, bool last) {
  Output said = Push(text);
  if (last) {
    Output rest = Finish();
    said.text += rest.text;
    for (ToolCall& call : rest.calls) said.calls.push_back(std::move(call));
  }
  if (!parallel_ && !said.calls.empty()) said.calls.resize(calls_read_ > 0 ? 0 : 1);
  calls_read_ += static_cast<int32_t>(said.calls.size());
  return said;
}

ToolCallParser::Output ToolCallParser::Push(std::string_view text) {
  Output output;
  if (format_ == ToolCallFormat::kNone || passes_all_) {
    output.text = text;
    return output;
  }
  if (reader_ != nullptr) {
    AddRead(reader_->Push(text), &output);
    return output;
  }
  held_.append(text);
  if (holds_all_) return output;
  switch (format_) {
    case ToolCallFormat::kHermes:
      PushHermes(&output);
      break;
    case ToolCallFormat::kMistral:
    case ToolCallFormat::kMistralArgs:
      PushMistral(&output);
      break;
    case ToolCallFormat::kLlama3Json:
      PushLlama(&output);
      break;
    default:
      break;
  }
  return output;
}

void ToolCallParser::PushMistral(Output* output) {
  const size_t open = held_.find(kMistralOpen);
  holds_all_ = open != std::string::npos;
  const size_t passed = holds_all_ ? open : held_.size() - HeldBytes(held_, kMistralOpen);
  output->text = held_.substr(0, passed);
  held_.erase(0, passed);
}

// Llama calls with the first thing it says, or not at all.
void ToolCallParser::PushLlama(Output* output) {
  searched_ = std::min(held_.find_first_not_of(kWhiteSpace, searched_), held_.size());
  const std::string_view begin = std::string_view(held_).substr(searched_);
  const bool undecided = begin.size() < kPythonTag.size() && kPythonTag.starts_with(begin);
  holds_all_ = !undecided && (begin.front() == '{' || begin.starts_with(kPythonTag));
  passes_all_ = !undecided && !holds_all_;
  if (passes_all_) output->text = std::exchange(held_, {});
}

// A call whose arguments cannot be passed on is text, and so is what closes it.
void ToolCallParser::AddRead(FormatCallReader::Output read, Output* output) {
  for (const FormatCallReader::Part& part : read) {
    if (!part.name.empty()) in_call_ = AddNamedCall(part.name, part.arguments, output);
    if (part.name.empty() ? !(part.closes_call && in_call_) : !in_call_) {
      PassHermesText(part.text, output);
    } else {
      between_.clear();
    }
  }
}

ToolCallParser::Output ToolCallParser::Finish() {
  Output output;
  if (reader_ != nullptr) {
    AddRead(reader_->Finish(), &output);
    return output;
  }
  switch (format_) {
    case ToolCallFormat::kHermes:
      FinishHermes(&output);
      break;
    case ToolCallFormat::kLlama3Json:
      if (holds_all_) FinishLlama(&output);
      break;
    case ToolCallFormat::kMistral:
    case ToolCallFormat::kMistralArgs:
      if (holds_all_) FinishMistral(&output);
      break;
    default:
      break;
  }
  if (output.calls.empty() && !held_.empty()) output.text.append(between_).append(held_);
  held_.clear();
  return output;
}

void ToolCallParser::PushHermes(Output* output) {
  size_t done = 0;  // bytes of held_ that were passed on or taken
  for (;;) {
    if (!in_call_) {
      const size_t open = held_.find(kHermesOpen, done);
      in_call_ = open != std::string::npos;
      const std::string_view rest = std::string_view(held_).substr(done);
      const size_t passed = in_call_ ? open - done : rest.size() - HeldBytes(rest, kHermesOpen);
      PassHermesText(rest.substr(0, passed), output);
      done += passed;
      if (!in_call_) break;
      searched_ = done + kHermesOpen.size();
    }
    const size_t close = held_.find(kHermesClose, searched_);
    if (close == std::string::npos) {
      searched_ = std::max(searched_, held_.size() - std::min(held_.size(), kHermesClose.size() - 1));
      break;
    }
    size_t end = close + kHermesClose.size();
    const size_t begin = done + kHermesOpen.size();
    const std::string_view json = std::string_view(held_).substr(begin, close - begin);
    if (!AddCall(Trimmed(json), output)) {
      if (doubted_ == 0 && EndsInString(json)) {
        // The next tag shows whether this one is text in an argument.
        doubted_ = searched_ = end;
        continue;
      }
      if (doubted_ != 0) end = doubted_;
      output->text.append(between_).append(held_, done, end - done);
    }
    LeaveHermesCall();
    done = end;
  }
  // Once, however many calls came together.
  held_.erase(0, done);
  searched_ -= std::min(searched_, done);
  doubted_ -= std::min(doubted_, done);
}

void ToolCallParser::LeaveHermesCall() {
  between_.clear();
  in_call_ = false;
  doubted_ = 0;
}

void ToolCallParser::PassHermesText(std::string_view text, Output* output) {
  // White space between calls and at the end is nobody's text; before more text it is part of that.
  if (calls_ == 0) {
    output->text.append(text);
  } else if (const size_t last = text.find_last_not_of(kWhiteSpace); last == std::string_view::npos) {
    between_.append(text);
  } else {
    output->text.append(between_).append(text.substr(0, last + 1));
    between_ = text.substr(last + 1);
  }
}

// A call that the end of the answer cut off before its closing tag may be whole all the same.
void ToolCallParser::FinishHermes(Output* output) {
  if (!in_call_) return;
  if (AddCall(Trimmed(std::string_view(held_).substr(kHermesOpen.size())), output)) {
    held_.clear();
  } else if (doubted_ != 0) {
    output->text.append(between_).append(held_, 0, doubted_);
    held_.erase(0, doubted_);
    searched_ = 0;
    LeaveHermesCall();
    PushHermes(output);
    FinishHermes(output);
  }
}

void ToolCallParser::FinishLlama(Output* output) {
  std::string_view rest = Trimmed(held_);
  if (rest.starts_with(kPythonTag)) rest.remove_prefix(kPythonTag.size());
  Output calls;
  while (!(rest = Trimmed(rest)).empty()) {
    const size_t bytes = rest.front() == '{' ? ObjectBytes(rest) : 0;
    if (bytes == 0 || !AddCall(rest.substr(0, bytes), &calls)) return;
    rest = Trimmed(rest.substr(bytes));
    if (rest.starts_with(';')) rest.remove_prefix(1);
  }
  output->calls = std::move(calls.calls);
}

bool ToolCallParser::AddCalls(std::string_view json, Output* output) {
  const ApiResult<JsonBody> parsed = JsonBody::Parse(json, RequestLimits());
  if (!parsed.ok() || !parsed.value().root().is_array() || parsed.value().root().size() == 0) return false;
  for (JsonView call = parsed.value().root().first(); call.valid(); call = call.next()) {
    const std::optional<std::string> one = Dump(call);
    if (!one.has_value() || !AddCall(*one, output)) return false;
  }
  return true;
}

void ToolCallParser::FinishMistral(Output* output) {
  std::string_view rest = held_;
  Output calls;
  while (rest.starts_with(kMistralOpen)) {
    rest = Trimmed(rest.substr(kMistralOpen.size()));
    if (rest.starts_with('[')) {
      const size_t bytes = ObjectBytes(rest);
      if (bytes == 0 || !AddCalls(rest.substr(0, bytes), &calls)) return;
      rest = Trimmed(rest.substr(bytes));
      continue;
    }
    const size_t brace = rest.find('{');
    if (brace == std::string_view::npos) return;
    std::string_view name = Trimmed(rest.substr(0, brace));
    // f[ARGS]{…} and f[CALL_ID]…[ARGS]{…}
    name = name.substr(0, std::min(name.find(kMistralArguments), name.find(kMistralCallId)));
    const size_t bytes = ObjectBytes(rest.substr(brace));
    if (bytes == 0 || !AddNamedCall(name, rest.substr(brace, bytes), &calls)) return;
    rest = Trimmed(rest.substr(brace + bytes));
  }
  if (rest.empty()) output->calls = std::move(calls.calls);
}

}  // namespace hydrant
