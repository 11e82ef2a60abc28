// ChannelReader reads an answer that is several messages, each with a head that says on which channel it is and whom it is for: what is on
// the channel of reasoning is that; a call of a function is text that the call's format reads; all other messages are text.
//
// Thread: any; belongs to one choice of one answer.
//
// Invariants:
//  1. However a text is cut into pieces, the same reasoning and the same rest come out of it.
//  2. A text that is not messages passes as it is, from where it is none. So does an end that a message of text spells, behind which no head
//     comes: it is a part of it.
//  3. What is held back is less than a head, and white space of reasoning; time is linear in a text that comes in tokens.
#ifndef HYDRANT_API_RESPONSE_CHANNEL_READER_H_
#define HYDRANT_API_RESPONSE_CHANNEL_READER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace hydrant {

// The texts around messages; ChannelFormat has examples.
struct ChannelMarks {
  std::string start, channel, message, end;
  std::string thought;      // the channel of reasoning; empty: what is there is text as well
  bool are_tokens = false;  // each begins with a special token: what spells it otherwise is text
};

class ChannelReader {
 public:
  struct Output {
    std::string reasoning, text;
  };
  enum class Begin : uint8_t {
    kHead,     // behind `start`
    kThought,  // within a message of reasoning
    kText      // within another
  };
  // Where the prompt left the answer. REQUIRES: no mark but `thought` is empty.
  ChannelReader(ChannelMarks marks, Begin begin);

  // At this byte of the text, not pushed yet, a special token begins. REQUIRES: behind all that were named before.
  void TokenAt(int64_t byte) { tokens_.push_back(byte); }
  Output Push(std::string_view text);
  // Ends the text. A head that is not whole is nobody's.
  Output Finish();

  // Bytes of the text so far of which is known what they are.
  int64_t decided() const { return pushed_ - static_cast<int64_t>(held_.size()); }
  // Whether a byte is reasoning, or a mark around it. REQUIRES: byte < decided(), or Finish was called.
  bool IsReasoning(int64_t byte) const;

 private:
  enum class State : uint8_t { kHead, kBody, kText };

  // Each takes from held_ what it can decide, and returns whether there may be more to take.
  bool ReadHead(Output* output);
  bool ReadBody(Output* output);
  // Whether that is a head, or the beginning of one, perhaps with a part of the mark behind it.
  bool IsHead(std::string_view head, bool whole) const;
  void BeginMessage(std::string_view head, Output* output);
  // Where a mark is in what is held; npos: nowhere.
  size_t Find(std::string_view mark) const;
  // Whether a mark may begin there.
  bool MayMark(size_t at) const;
  void Pass(std::string_view text, Output* output);
  void SetReasoning(bool reasons, int64_t from);

  // The longest head that was seen has some 90 bytes.
  static constexpr size_t kHeadBytesMax = 512;

  ChannelMarks marks_;
  State state_ = State::kHead;
  bool first_ = true;    // before the end of the first message
  bool thinks_ = false;  // the message is reasoning
  bool is_call_ = false;
  bool thought_ = false, said_ = false;  // some was passed on
  bool begins_ = false;                  // nothing of the message was passed on
  std::string held_;
  std::string ended_;             // the end of a message of text behind which no head was seen yet
  std::string blank_;             // white space that more reasoning may follow
  int64_t pushed_ = 0;            // bytes
  std::deque<int64_t> tokens_;    // special ones that may be in what is held
  std::vector<int64_t> borders_;  // ascending: where reasoning begins, where it ends, where it begins again, …
};

}  // namespace hydrant

#endif  // HYDRANT_API_RESPONSE_CHANNEL_READER_H_
