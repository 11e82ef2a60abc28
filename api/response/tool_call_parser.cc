#include "api/response/tool_call_parser.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/response/pythonic_calls.h"
#include "api/wire/json_body.h"
#include "api/wire/json_strings.h"
#include "api/wire/ordered_json.h"
#include "model/grammar/notation/tool_format.h"
#include "model/text/text_pieces.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;
using Kind = AnswerPiece::Kind;

constexpr std::string_view kHermesOpen = "<tool_call>";
constexpr std::string_view kHermesClose = "</tool_call>";
constexpr std::string_view kPythonTag = "<|python_tag|>";
constexpr std::string_view kMistralOpen = "[TOOL_CALLS]";
constexpr std::string_view kMistralArguments = "[ARGS]";
constexpr std::string_view kMistralCallId = "[CALL_ID]";
constexpr size_t kNameBytesMax = 64;

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kWhiteSpace) + 1 - begin);
}

// Nullopt: it holds an integer that would become another one.
std::optional<std::string> Dump(JsonView view) {
  const std::optional<Json> json = OrderedJson(view);
  if (!json.has_value()) return std::nullopt;
  return json->dump(-1, ' ', false, Json::error_handler_t::replace);
}

using FormatName = std::pair<std::string_view, ToolCallFormat>;
constexpr std::array<FormatName, 13> kNames = {{
    {"none", ToolCallFormat::kNone},
    {"hermes", ToolCallFormat::kHermes},
    {"llama3_json", ToolCallFormat::kLlama3Json},
    {"mistral", ToolCallFormat::kMistral},
    {"mistral_args", ToolCallFormat::kMistralArgs},
    {"qwen3_coder", ToolCallFormat::kQwen3Coder},
    {"deepseek_v3", ToolCallFormat::kDeepSeekV3},
    {"deepseek_v31", ToolCallFormat::kDeepSeekV31},
    {"pythonic", ToolCallFormat::kPythonic},
    {"harmony", ToolCallFormat::kHarmony},
    {"glm45", ToolCallFormat::kGlm45},
    {"functionary_v31", ToolCallFormat::kFunctionaryV31},
    {"hunyuan_a13b", ToolCallFormat::kHunyuanA13b},
}};
constexpr std::array<FormatName, 5> kAliases = {{
    {"glm47", ToolCallFormat::kGlm45},
    {"llama4_json", ToolCallFormat::kLlama3Json},
    {"llama4_pythonic", ToolCallFormat::kPythonic},
    {"openai", ToolCallFormat::kHarmony},
    {"qwen3_xml", ToolCallFormat::kQwen3Coder},
}};

std::vector<std::string_view> NamesOf(std::span<const FormatName> formats) {
  std::vector<std::string_view> names;
  for (const auto& [name, format] : formats) names.push_back(name);
  return names;
}

}  // namespace

std::optional<ToolCallFormat> ToolCallFormatOf(std::string_view name) {
  for (const auto formats : {std::span<const FormatName>(kNames), std::span<const FormatName>(kAliases)}) {
    for (const auto& [own, format] : formats) {
      if (own == name) return format;
    }
  }
  return std::nullopt;
}

std::vector<std::string_view> ToolCallFormatNames() { return NamesOf(kNames); }

std::vector<std::string_view> ToolCallFormatAliases() { return NamesOf(kAliases); }

std::string_view ToolCallFormatName(ToolCallFormat format) { return kNames[static_cast<size_t>(format)].first; }

ToolCallFormat DetectToolCallFormat(std::string_view chat_template) {
  const grammar::ToolFormat* format = grammar::DetectToolFormat(chat_template);
  return format == nullptr ? ToolCallFormat::kNone : ToolCallFormatOf(format->name).value_or(ToolCallFormat::kNone);
}

std::span<const std::string_view> ToolCallMarkers(ToolCallFormat format) {
  const grammar::ToolFormat* data = grammar::FindToolFormat(ToolCallFormatName(format));
  if (data == nullptr) return {};
  const auto end = std::find(data->markers.begin(), data->markers.end(), std::string_view());
  return {data->markers.begin(), end};
}

bool CallsAreJsonAnswers(ToolCallFormat format) {
  const grammar::ToolFormat* data = grammar::FindToolFormat(ToolCallFormatName(format));
  return data != nullptr && data->trigger.empty() && data->style == grammar::ArgumentStyle::kJson;
}

CallMark CallMarkOf(ToolCallFormat format, std::span<const std::string> markers) {
  const grammar::ToolFormat* data = grammar::FindToolFormat(ToolCallFormatName(format));
  if (data == nullptr || data->trigger.empty()) return CallMark::kNone;
  if (std::ranges::find(markers, data->trigger) != markers.end()) return CallMark::kToken;
  return std::ranges::find(data->markers, data->trigger) != data->markers.end() ? CallMark::kSpelled : CallMark::kNone;
}

std::shared_ptr<const grammar::ArgumentTypes> ArgumentTypesOf(ToolCallFormat format, const Json& tools) {
  const grammar::ToolFormat* data = grammar::FindToolFormat(ToolCallFormatName(format));
  if (data == nullptr || data->style != grammar::ArgumentStyle::kMarkup) return nullptr;
  auto types = std::make_shared<grammar::ArgumentTypes>();
  for (const Json& tool : tools) types->Add(tool.at("function").dump());
  return types;
}

bool IsFunctionName(std::string_view name) {
  if (name.empty() || name.size() > kNameBytesMax) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

bool WholeAnswer::has_whole_call() const {
  return std::any_of(calls.begin(), calls.end(), [](const ToolCall& call) { return call.whole; });
}

WholeAnswer Joined(const AnswerPieces& pieces) {
  WholeAnswer answer;
  for (const AnswerPiece& piece : pieces) {
    switch (piece.kind) {
      case Kind::kText:
        answer.text += piece.text;
        break;
      case Kind::kCall:
        answer.calls.push_back({piece.id, piece.text, "", true});
        break;
      case Kind::kArguments:
        answer.calls.back().arguments += piece.text;
        break;
      case Kind::kCallEnd:
        break;
      case Kind::kCallCut:
        answer.calls.back().whole = false;
        break;
    }
  }
  return answer;
}

std::string WholeMembers(std::string_view arguments) {
  JsonStrings strings;
  size_t end = 0;
  int depth = 0;
  bool in_value = false;  // behind the colon of a member
  for (size_t i = 0; i < arguments.size(); ++i) {
    const char c = arguments[i];
    const bool outside = strings.Outside(c);
    if (!outside && depth == 1 && in_value && strings.ended()) end = i + 1;
    if (!outside) continue;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 1) end = i + 1;
    if (depth == 0 && c == '}') return std::string(arguments.substr(0, i + 1));
    if (depth != 1) continue;
    if (c == ':') in_value = true;
    if (c != ',') continue;
    in_value = false;
    end = i;
  }
  return end == 0 ? "{}" : std::string(arguments.substr(0, end)) + "}";
}

ToolCallParser::ToolCallParser(ToolCallFormat format, std::string id, bool parallel,
                               std::shared_ptr<const grammar::ArgumentTypes> types)
    : format_(format), id_(std::move(id)), parallel_(parallel) {
  if (format == ToolCallFormat::kNone) return;
  by_hand_ = format == ToolCallFormat::kPythonic;
  if (by_hand_) return;
  const bool hands_over = format < ToolCallFormat::kQwen3Coder;
  reader_ = std::make_unique<FormatCallReader>(ToolCallFormatName(format), hands_over, std::move(types));
}

std::string ToolCallParser::NextId() {
  // Mistral's templates refuse ids of other lengths than nine letters and digits.
  static constexpr std::string_view kAlphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  uint64_t state = std::hash<std::string>()(absl::StrCat(id_, "/", calls_));
  const bool is_mistral = format_ == ToolCallFormat::kMistral || format_ == ToolCallFormat::kMistralArgs;
  std::string id = is_mistral ? "" : "call_";
  const size_t length = is_mistral ? 9 : 24;
  for (size_t i = 0; i < length; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    id.push_back(kAlphabet[(state >> 33) % kAlphabet.size()]);
  }
  return id;
}

// What a model wrote in a way that no grammar has, made into pieces.
bool ToolCallParser::AddNamedCall(std::string_view name, std::string_view arguments, AnswerPieces* out) {
  const ApiResult<JsonBody> parsed = JsonBody::Parse(arguments, RequestLimits());
  if (!IsFunctionName(name) || !parsed.ok() || !parsed.value().root().is_object()) return false;
  std::optional<std::string> text = Dump(parsed.value().root());
  if (!text.has_value()) return false;
  out->push_back({Kind::kCall, std::string(name), 0, ""});
  out->push_back({Kind::kArguments, *std::move(text), 0, ""});
  out->push_back({Kind::kCallEnd, "", 0, ""});
  return true;
}

bool ToolCallParser::AddCall(std::string_view json, AnswerPieces* out) {
  const ApiResult<JsonBody> parsed = JsonBody::Parse(json, RequestLimits());
  if (!parsed.ok() || !parsed.value().root().is_object()) return false;
  const JsonView call = parsed.value().root();
  if (!call["name"].is_string()) return false;
  // Models mix up the formats' two names for it. Other members alone are an answer in JSON, not a call without arguments.
  JsonView arguments = call["arguments"];
  if (arguments.absent()) arguments = call["parameters"];
  if (arguments.absent() && call.size() > 1) return false;
  if (arguments.is_string()) return AddNamedCall(call["name"].string(), arguments.string(), out);
  if (!arguments.absent() && !arguments.is_object()) return false;
  const std::optional<std::string> text = arguments.absent() ? "{}" : Dump(arguments);
  return text.has_value() && AddNamedCall(call["name"].string(), *text, out);
}

AnswerPieces ToolCallParser::Read(std::string_view text, bool last) {
  AnswerPieces said = Push(text);
  if (!last) return said;
  for (AnswerPiece& piece : Finish()) {
    if (piece.kind == Kind::kText || piece.kind == Kind::kArguments) {
      AddPiece(piece.kind, piece.text, &said, piece.call);
    } else {
      said.push_back(std::move(piece));
    }
  }
  return said;
}

AnswerPieces ToolCallParser::Push(std::string_view text) {
  AnswerPieces out;
  if (reader_ == nullptr && by_hand_) {
    PushPythonic(text, &out);
    return out;
  }
  if (reader_ == nullptr) {
    AddPiece(Kind::kText, text, &out);
    return out;
  }
  for (size_t at = 0; at < text.size();) {
    if (by_hand_) {
      at += PushByHand(text.substr(at), &out);
      continue;
    }
    AnswerPieces read;
    at += reader_->Push(text.substr(at), &read);
    PassPieces(std::move(read), &out);
    if (at == text.size()) break;
    held_ = reader_->TakeHeld();
    by_hand_ = true;
  }
  return out;
}

// White space at the beginning, after a call and at the end is nobody's text where nothing else comes before the next call; before
// more text it is part of that.
void ToolCallParser::PassText(std::string_view text, AnswerPieces* out) {
  if (has_text_ && calls_ == 0) return AddPiece(Kind::kText, text, out);
  const size_t last = text.find_last_not_of(kWhiteSpace);
  if (last == text.npos) {
    between_.append(text);
    return;
  }
  has_text_ = true;
  AddPiece(Kind::kText, std::exchange(between_, {}), out);
  AddPiece(Kind::kText, text.substr(0, calls_ == 0 ? text.npos : last + 1), out);
  if (calls_ > 0) between_ = text.substr(last + 1);
}

void ToolCallParser::PassPieces(AnswerPieces read, AnswerPieces* out) {
  for (AnswerPiece& piece : read) {
    if (piece.kind == Kind::kText) {
      PassText(piece.text, out);
      continue;
    }
    if (piece.kind == Kind::kCall) {
      between_.clear();
      piece.id = NextId();
      ++calls_;
    }
    piece.call = calls_ - 1;
    if (!parallel_ && piece.call > 0) continue;
    has_whole_call_ = has_whole_call_ || piece.kind == Kind::kCallEnd;
    out->push_back(std::move(piece));
  }
}

void ToolCallParser::PushPythonic(std::string_view text, AnswerPieces* out) {
  held_.append(text);
  blank_bytes_ = std::min(held_.find_first_not_of(kWhiteSpace, blank_bytes_), held_.size());
  if (MayBePythonicCalls(std::string_view(held_).substr(blank_bytes_))) return;
  by_hand_ = false;
  AddPiece(Kind::kText, std::exchange(held_, {}), out);
}

// Returns how many bytes it took. A call of Hermes ends with its closing tag, calls of the others with the answer.
size_t ToolCallParser::PushByHand(std::string_view text, AnswerPieces* out) {
  if (format_ == ToolCallFormat::kLlama3Json && held_.find_first_not_of(kWhiteSpace) != held_.npos) {
    // Llama calls with the first thing it says, or not at all. Behind a call that was told of there is what parts it from the next.
    const std::string_view begin = Trimmed(held_);
    if (calls_ == 0 && begin.front() != '{' && !begin.starts_with(kPythonTag)) {
      by_hand_ = false;
      PassText(std::exchange(held_, {}), out);
      return 0;
    }
  }
  if (format_ != ToolCallFormat::kHermes) {
    held_.append(text);
    return text.size();
  }
  size_t at = 0;
  while (at < text.size() && !held_.ends_with(kHermesClose)) {
    const size_t end = std::min(text.find(kHermesClose.back(), at), text.size() - 1) + 1;
    held_.append(text.substr(at, end - at));
    at = end;
  }
  if (!held_.ends_with(kHermesClose)) return at;
  std::string_view json = held_;
  json.remove_prefix(kHermesOpen.size());
  json.remove_suffix(kHermesClose.size());
  AnswerPieces call;
  if (AddCall(Trimmed(json), &call)) {
    PassPieces(std::move(call), out);
  } else {
    PassText(held_, out);
  }
  held_.clear();
  by_hand_ = false;
  return at;
}

AnswerPieces ToolCallParser::Finish() {
  AnswerPieces out;
  if (reader_ == nullptr && !by_hand_) return out;
  if (!by_hand_) {
    AnswerPieces read;
    by_hand_ = reader_->Finish(&read);
    PassPieces(std::move(read), &out);
    if (by_hand_) held_ = reader_->TakeHeld();
  }
  if (by_hand_) FinishByHand(&out);
  if (calls_ == 0) AddPiece(Kind::kText, std::exchange(between_, {}), &out);
  return out;
}

// A call that the end of the answer cut off before its closing tag may be whole all the same.
void ToolCallParser::FinishByHand(AnswerPieces* out) {
  if (format_ == ToolCallFormat::kPythonic) {
    std::optional<AnswerPieces> read = ReadPythonicCalls(held_);
    if (read.has_value()) {
      PassPieces(*std::move(read), out);
    } else {
      AddPiece(Kind::kText, held_, out);
    }
    return held_.clear();
  }
  AnswerPieces calls;
  const bool are_calls = format_ == ToolCallFormat::kLlama3Json ? FinishLlama(&calls)
                         : format_ == ToolCallFormat::kHermes
                             ? AddCall(Trimmed(std::string_view(held_).substr(kHermesOpen.size())), &calls)
                             : FinishMistral(&calls);
  if (are_calls) {
    PassPieces(std::move(calls), out);
  } else {
    PassText(held_, out);
  }
  held_.clear();
}

bool ToolCallParser::FinishLlama(AnswerPieces* out) {
  std::string_view rest = Trimmed(held_);
  if (rest.starts_with(kPythonTag)) rest.remove_prefix(kPythonTag.size());
  if (calls_ > 0 && rest.starts_with(';')) rest.remove_prefix(1);
  while (!(rest = Trimmed(rest)).empty()) {
    const size_t bytes = rest.front() == '{' ? BracketBytes(rest) : 0;
    if (bytes == 0 || !AddCall(rest.substr(0, bytes), out)) return false;
    rest = Trimmed(rest.substr(bytes));
    if (rest.starts_with(';')) rest.remove_prefix(1);
  }
  return !out->empty();
}

bool ToolCallParser::AddCalls(std::string_view json, AnswerPieces* out) {
  const ApiResult<JsonBody> parsed = JsonBody::Parse(json, RequestLimits());
  if (!parsed.ok() || !parsed.value().root().is_array() || parsed.value().root().size() == 0) return false;
  for (JsonView call = parsed.value().root().first(); call.valid(); call = call.next()) {
    const std::optional<std::string> one = Dump(call);
    if (!one.has_value() || !AddCall(*one, out)) return false;
  }
  return true;
}

// What is left of a list behind a call that was told of. Takes it off `rest`.
bool ToolCallParser::AddRestOfList(std::string_view* rest, AnswerPieces* out) {
  while (rest->starts_with(',')) {
    *rest = Trimmed(rest->substr(1));
    const size_t bytes = rest->starts_with('{') ? BracketBytes(*rest) : 0;
    if (bytes == 0 || !AddCall(rest->substr(0, bytes), out)) return false;
    *rest = Trimmed(rest->substr(bytes));
  }
  if (!rest->starts_with(']')) return rest->empty();
  *rest = Trimmed(rest->substr(1));
  return true;
}

bool ToolCallParser::FinishMistral(AnswerPieces* out) {
  std::string_view rest = held_;
  if (!rest.starts_with(kMistralOpen)) {
    rest = Trimmed(rest);
    if (!AddRestOfList(&rest, out)) return false;
  }
  while (rest.starts_with(kMistralOpen)) {
    rest = Trimmed(rest.substr(kMistralOpen.size()));
    if (rest.starts_with('[')) {
      const size_t bytes = BracketBytes(rest);
      if (bytes == 0 || !AddCalls(rest.substr(0, bytes), out)) return false;
      rest = Trimmed(rest.substr(bytes));
      continue;
    }
    const size_t brace = rest.find('{');
    if (brace == std::string_view::npos) return false;
    std::string_view name = Trimmed(rest.substr(0, brace));
    // f[ARGS]{…} and f[CALL_ID]…[ARGS]{…}
    name = name.substr(0, std::min(name.find(kMistralArguments), name.find(kMistralCallId)));
    const size_t bytes = BracketBytes(rest.substr(brace));
    if (bytes == 0 || !AddNamedCall(name, rest.substr(brace, bytes), out)) return false;
    rest = Trimmed(rest.substr(brace + bytes));
  }
  return rest.empty();
}

}  // namespace hydrant
