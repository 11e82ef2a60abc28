// ResponseOutput makes the items of an answer of POST /v1/responses out of its text, and the events that tell of them. Who gives it
// the whole text at once gets the same items as who gives it piece by piece.
//
//   output_item.added, then for a message content_part.added, output_text.delta…, output_text.done, content_part.done, or for a call
//   function_call_arguments.delta and .done, and at last output_item.done
//
// Thread: any; belongs to one answer.
//
// Invariants
//  1. Items are numbered from 0, and one is done before the next is added.
//  2. There is no message of nothing but white space, unless there is nothing else.
#ifndef HYDRANT_API_RESPONSE_RESPONSE_OUTPUT_H_
#define HYDRANT_API_RESPONSE_RESPONSE_OUTPUT_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/response/answer.h"
#include "api/response/tool_call_parser.h"

namespace hydrant {

struct ResponseOutputOptions {
  ToolCallFormat tool_calls = ToolCallFormat::kNone;
  std::shared_ptr<const grammar::ArgumentTypes> argument_types;  // of the tools; null: they may be anything
  bool parallel_tool_calls = true;                               // false: the first call only
  std::vector<std::string> custom_tools;                         // those whose input is a text, the argument `input`
  bool encrypts_reasoning = false;  // what was thought is also there as base64, for clients that send that back
  std::string ids;                  // what ids of items and calls are made of: no two answers have the same
};

// The events of one answer, numbered.
class ResponseEvents {
 public:
  // What follows the type and the number in the event's object is appended by the caller, up to End.
  void Begin(std::string* out, std::string_view type);
  static void End(std::string* out) { out->append("}\n\n"); }

 private:
  int64_t number_ = 0;
};

class ResponseOutput {
 public:
  explicit ResponseOutput(const ResponseOutputOptions& options)
      : options_(options),
        parser_(options.tool_calls, options.ids, options.parallel_tool_calls, options.argument_types) {}

  // More of what was thought, all of which comes first. `events` and `out` as below.
  void PushReasoning(std::string_view text, ResponseEvents* events, std::string* out);
  // Log-probabilities of the next tokens, before any text that they are in; `text_begin`: AnswerDelta's. A message has those of the tokens
  // that its text is made of.
  void AddLogprobs(const std::vector<PositionLogprobs>& positions, int64_t text_begin);
  // More of the text; `last`: the end of it. `incomplete`: it was cut off there. With `events` the events go to `out`; both may be
  // null.
  void Push(std::string_view text, bool last, bool incomplete, ResponseEvents* events, std::string* out);
  // The items that are done, with commas between.
  const std::string& items() const { return items_; }
  // False: the text has calls that are in no item.
  bool says_all() const { return !parser_.left_out_calls(); }

 private:
  struct Token {
    int64_t begin, end;  // PositionLogprobs'
    std::string logprobs;
  };
  struct PlacedPiece {
    AnswerPiece piece;
    int64_t begin = 0;  // of a text: bytes of all text before it
  };

  std::vector<PlacedPiece> ReadPlaced(std::string_view text, bool last);
  void PlacePieces(AnswerPieces pieces, std::vector<PlacedPiece>* out);
  void AddText(std::string_view text, int64_t begin);
  std::string TakeLogprobs(int64_t begin, int64_t end);
  void CloseReasoning(std::string_view status);
  void OpenMessage();
  void CloseMessage(std::string_view status);
  void AddPiece(const AnswerPiece& piece, int64_t begin);
  void OpenCall(const AnswerPiece& piece);
  void AddArguments(std::string_view arguments);
  void CloseCall(std::string_view status);
  std::string CallItem(std::string_view status, std::string_view text) const;
  void AddItem(std::string_view item);
  // Nothing happens without events.
  void Tell(std::string_view type, std::string_view members);
  std::string Place(bool content) const;
  void AppendMessage(std::string* out, std::string_view status, bool begins) const;
  void AppendPart(std::string* out, bool begins) const;

  const ResponseOutputOptions& options_;
  ToolCallParser parser_;
  std::string items_;
  int32_t index_ = 0;  // of the item that is open, or the next one
  bool in_message_ = false;
  bool in_reasoning_ = false;
  std::string text_;                  // of the message that is open; of the call, its arguments
  std::string name_, call_id_;        // of the call that is open
  bool is_custom_ = false;            // it is one of a custom tool
  std::string blank_;                 // white space that no message has yet
  int64_t blank_begin_ = 0;           // where it begins
  bool has_logprobs_ = false;         // they are asked for
  std::string logprobs_;              // of the message that is open, with commas between
  std::deque<Token> waiting_;         // those that no text has come to yet
  int64_t text_begin_ = 0;            // AddLogprobs'
  int64_t read_ = 0, said_ = 0;       // bytes of text that the parser was given, and up to which it passed them on
  bool has_calls_ = false;            // it passed on one
  std::string id_;                    // of the item that is open
  ResponseEvents* events_ = nullptr;  // during Push only
  std::string* out_ = nullptr;
};

}  // namespace hydrant

#endif  // HYDRANT_API_RESPONSE_RESPONSE_OUTPUT_H_
