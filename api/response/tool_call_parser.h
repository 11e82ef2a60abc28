// ToolCallParser takes the tool calls out of what a model writes, while it writes it. What is no well-formed call stays text.
//
// Thread: any; belongs to one choice of one answer.
//
// Invariants:
//  1. Text that may still become a call is held back; everything else is passed on at once.
//  2. Push and Finish together pass on every byte of text that is part of no call, in order.
//  3. They take time linear in the answer, in however many pieces it comes and whether or not a call ever ends.
#ifndef HYDRANT_API_RESPONSE_TOOL_CALL_PARSER_H_
#define HYDRANT_API_RESPONSE_TOOL_CALL_PARSER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/response/format_call_reader.h"

namespace hydrant {

enum class ToolCallFormat : uint8_t {
  kNone,         // the model's template shows none that we know: calls stay text
  kHermes,       // <tool_call>{"name": …, "arguments": {…}}</tool_call>, also Qwen's
  kLlama3Json,   // {"name": …, "parameters": {…}}, perhaps after <|python_tag|>, several with ; between
  kMistral,      // [TOOL_CALLS] [{"name": …, "arguments": {…}}], or [TOOL_CALLS]name[ARGS]{…}
  kMistralArgs,  // the same; the model is asked for the latter
  // Those below are read by the grammar of their format (grammar::ToolFormat).
  kQwen3Coder,  // <tool_call><function=name><parameter=key> value </parameter></function></tool_call>
  kDeepSeekV3,  // <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>name, and arguments in a fence
  kDeepSeekV31,  // <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>name<｜tool▁sep｜>{…}
  kPythonic,     // [name(key=value, …), …]
};

// By the name that grammar::ToolFormat has, or "none"; nullopt for other names.
std::optional<ToolCallFormat> ToolCallFormatOf(std::string_view name);
// All names.
std::vector<std::string_view> ToolCallFormatNames();
// The name; "none" for kNone.
std::string_view ToolCallFormatName(ToolCallFormat format);
// The format that a chat template asks its model for.
ToolCallFormat DetectToolCallFormat(std::string_view chat_template);

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // the text of a JSON object
};

// What a call begins with; empty for kNone. Where a tokenizer has it as a special token, answers must be decoded with those.
std::string_view ToolCallMarker(ToolCallFormat format);

// 1 to 64 characters of [A-Za-z0-9_.-]: what a client may send back as the name of a call.
bool IsFunctionName(std::string_view name);

class ToolCallParser {
 public:
  struct Output {
    std::string text;
    std::vector<ToolCall> calls;
  };

  // `id`: what ids of calls are made of, different for every choice of every answer. Without `parallel` Read passes the first
  // call on only.
  ToolCallParser(ToolCallFormat format, std::string id, bool parallel = true);

  // Push, and Finish where the text is the `last`.
  Output Read(std::string_view text, bool last);
  int32_t calls_read() const { return calls_read_; }

  Output Push(std::string_view text);
  // Ends the text: returns what Push held back.
  Output Finish();

 private:
  void AddRead(FormatCallReader::Output read, Output* output);
  void PushHermes(Output* output);
  void PassHermesText(std::string_view text, Output* output);
  void PushMistral(Output* output);
  void PushLlama(Output* output);
  void FinishHermes(Output* output);
  void LeaveHermesCall();
  void FinishLlama(Output* output);
  void FinishMistral(Output* output);
  // Appends the call that `json` spells; false if it spells none.
  bool AddCall(std::string_view json, Output* output);
  bool AddNamedCall(std::string_view name, std::string_view arguments, Output* output);
  bool AddCalls(std::string_view json, Output* output);
  std::string NextId();

  const ToolCallFormat format_;
  const std::string id_;
  const bool parallel_;
  int32_t calls_read_ = 0;
  std::string held_;
  size_t searched_ = 0;      // bytes of held_ in which what ends the holding does not begin
  bool in_call_ = false;     // Hermes: held_ begins with the opening tag. By reader_: what it read last is a call
  size_t doubted_ = 0;       // Hermes: end of a closing tag in held_ that may be part of an argument; 0: none
  std::string between_;      // Hermes: white space after a call, before what comes is known
  bool holds_all_ = false;   // until the end: a call of a format without a closing tag has begun
  bool passes_all_ = false;  // Llama: the answer began as text
  int32_t calls_ = 0;
  std::unique_ptr<FormatCallReader> reader_;  // of formats that their grammar reads
};

}  // namespace hydrant

#endif  // HYDRANT_API_RESPONSE_TOOL_CALL_PARSER_H_
