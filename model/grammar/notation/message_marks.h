// MessageMarks are the bytes around the messages of an answer that is several (gpt-oss's harmony): each begins with a head, which names its
// channel. Where a mark is a special token, it is that token's byte (marker_bytes.h).
//
// Thread: any (plain data).
#ifndef HYDRANT_MODEL_GRAMMAR_NOTATION_MESSAGE_MARKS_H_
#define HYDRANT_MODEL_GRAMMAR_NOTATION_MESSAGE_MARKS_H_

#include <cstdint>
#include <string>
#include <utility>

namespace hydrant::grammar {

struct MessageMarks {
  // Where the answer begins.
  enum class Begin : uint8_t {
    kStart,    // before `start`
    kHead,     // behind it
    kThought,  // within a message of reasoning
    kText      // within another
  };
  std::string start;    // "<|start|>assistant": before a head
  std::string channel;  // "<|channel|>": before the channel's name
  std::string message;  // "<|message|>": ends a head
  std::string end;      // "<|end|>": ends a message
  std::string thought;  // "analysis": the channel of reasoning; empty: none may come
  std::string answer;   // "final": the channel of the answer
  Begin begin = Begin::kHead;

  bool operator==(const MessageMarks&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const MessageMarks& m) {
    return H::combine(std::move(h), m.start, m.channel, m.message, m.end, m.thought, m.answer, m.begin);
  }
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_NOTATION_MESSAGE_MARKS_H_
