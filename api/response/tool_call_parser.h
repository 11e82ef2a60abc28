// ToolCallParser takes the tool calls out of what a model writes, while it writes it. What does not begin like a well-formed call stays text.
//
// The grammar of the format reads calls. What it refuses before a call was told of is looked at as a whole once more for the older
// formats: models write keys in another order, leave arguments out, or write them as a text.
//
// Thread: any; belongs to one choice of one answer.
//
// Invariants:
//  1. Text that may still become a call is held back; everything else is passed on at once. Of a call the name is passed on once its
//     arguments begin, and those as they come (format_call_reader.h).
//  2. Push and Finish together pass on every byte of text that is part of no call, in order; but white space alone before the first
//     call, between calls and behind the last is nobody's text.
//  3. However an answer is cut into pieces, the same text and the same calls come out of it.
//  4. They take time linear in the answer, in however many pieces it comes and whether or not a call ever ends.
#ifndef HYDRANT_API_RESPONSE_TOOL_CALL_PARSER_H_
#define HYDRANT_API_RESPONSE_TOOL_CALL_PARSER_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/response/format_call_reader.h"
#include "model/grammar/notation/argument_types.h"

namespace hydrant {

enum class ToolCallFormat : uint8_t {
  kNone,         // the model's template shows none that we know: calls stay text
  kHermes,       // <tool_call>{"name": …, "arguments": {…}}</tool_call>, also Qwen's
  kLlama3Json,   // {"name": …, "parameters": {…}}, perhaps after <|python_tag|>, several with ; between
  kMistral,      // [TOOL_CALLS] [{"name": …, "arguments": {…}}], or [TOOL_CALLS]name[ARGS]{…}
  kMistralArgs,  // the same; the model is asked for the latter
  // Those below are read by the grammar of their format alone.
  kQwen3Coder,  // <tool_call><function=name><parameter=key> value </parameter></function></tool_call>
  kDeepSeekV3,  // <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>name, and arguments in a fence
  kDeepSeekV31,     // <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>name<｜tool▁sep｜>{…}
  kPythonic,        // [name(key=value, …), …]
  kHarmony,         // <|channel|>commentary to=functions.name <|constrain|>json<|message|>{…}
  kGlm45,           // <tool_call>name <arg_key>key</arg_key> <arg_value>value</arg_value> </tool_call>
  kFunctionaryV31,  // <function=name>{…}</function>
  kHunyuanA13b,     // <tool_calls>[{"name": …, "arguments": {…}}]</tool_calls>
};

// By the name that grammar::ToolFormat has, or vLLM has for the same, or "none"; nullopt for other names.
std::optional<ToolCallFormat> ToolCallFormatOf(std::string_view name);
// All names, one of each format.
std::vector<std::string_view> ToolCallFormatNames();
// Those that vLLM has beside them.
std::vector<std::string_view> ToolCallFormatAliases();
// The name; "none" for kNone.
std::string_view ToolCallFormatName(ToolCallFormat format);
// The format that a chat template asks its model for.
ToolCallFormat DetectToolCallFormat(std::string_view chat_template);

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // the text of a JSON object, or the beginning of one
  bool whole = true;
};

// An answer that is not streamed.
struct WholeAnswer {
  std::string text;
  std::vector<ToolCall> calls;
  bool has_whole_call() const;
};
WholeAnswer Joined(const AnswerPieces& pieces);

// The object that the beginning of one shows: the members that are whole for sure, as they end by themselves or something follows.
std::string WholeMembers(std::string_view arguments);

// Texts of which a tokenizer may have some as special tokens: then answers must be decoded with those.
std::span<const std::string_view> ToolCallMarkers(ToolCallFormat format);

// Calls are all of an answer and JSON, without a mark that no other answer in JSON has.
bool CallsAreJsonAnswers(ToolCallFormat format);

// What calls begin with that may come anywhere in an answer.
enum class CallMark : uint8_t {
  kNone,     // there is no such text, or it is no text
  kSpelled,  // prose may have it, too
  kToken,    // a special token: who spells its letters in prose has not written it
};
// `markers`: those texts of the format that are special tokens.
CallMark CallMarkOf(ToolCallFormat format, std::span<const std::string> markers);

// What the arguments of `tools` may be, which are a request's as chats have them; null where the format tells kinds of values itself.
std::shared_ptr<const grammar::ArgumentTypes> ArgumentTypesOf(ToolCallFormat format,
                                                              const nlohmann::ordered_json& tools);

// 1 to 64 characters of [A-Za-z0-9_.-]: what a client may send back as the name of a call.
bool IsFunctionName(std::string_view name);

class ToolCallParser {
 public:
  // `id`: what ids of calls are made of, different for every choice of every answer. Without `parallel` the first call only is
  // passed on. `types`: what arguments may be that the format writes as bare text; null: anything.
  ToolCallParser(ToolCallFormat format, std::string id, bool parallel = true,
                 std::shared_ptr<const grammar::ArgumentTypes> types = nullptr);

  // Push, and Finish where the text is the `last`.
  AnswerPieces Read(std::string_view text, bool last);
  // A call was passed on whole.
  bool has_whole_call() const { return has_whole_call_; }
  // There were calls behind the first one, and they were not passed on.
  bool left_out_calls() const { return !parallel_ && calls_ > 1; }

  // Bytes at the end of what was pushed that may still be passed on as text.
  size_t held_bytes() const {
    return between_.size() + held_.size() + (reader_ == nullptr ? 0 : reader_->held_bytes());
  }

  AnswerPieces Push(std::string_view text);
  // Ends the text: returns what Push held back.
  AnswerPieces Finish();

 private:
  void PassText(std::string_view text, AnswerPieces* out);
  void PassPieces(AnswerPieces read, AnswerPieces* out);
  void PushPythonic(std::string_view text, AnswerPieces* out);
  size_t PushByHand(std::string_view text, AnswerPieces* out);
  void FinishByHand(AnswerPieces* out);
  bool FinishLlama(AnswerPieces* out);
  bool FinishMistral(AnswerPieces* out);
  // Appends the call that `json` spells to `out`; false if it spells none.
  static bool AddCall(std::string_view json, AnswerPieces* out);
  static bool AddNamedCall(std::string_view name, std::string_view arguments, AnswerPieces* out);
  static bool AddCalls(std::string_view json, AnswerPieces* out);
  static bool AddRestOfList(std::string_view* rest, AnswerPieces* out);
  std::string NextId();

  const ToolCallFormat format_;
  const std::string id_;
  const bool parallel_;
  std::unique_ptr<FormatCallReader> reader_;  // null: kNone, kPythonic
  bool by_hand_ = false;                      // what comes is for held_, not for reader_
  std::string held_;                          // what the reader handed over
  std::string between_;     // white space at the beginning or after a call, before what comes is known
  size_t blank_bytes_ = 0;  // of held_, at its front: white space before what may be pythonic calls
  bool has_text_ = false;
  int32_t calls_ = 0;
  bool has_whole_call_ = false;
};

}  // namespace hydrant

#endif  // HYDRANT_API_RESPONSE_TOOL_CALL_PARSER_H_
