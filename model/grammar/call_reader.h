// CallReader makes text and calls of the bytes of an answer and of what the grammar of its tool calls says about each byte.
//
// Thread: the one that reads the answer.
#ifndef HYDRANT_MODEL_GRAMMAR_CALL_READER_H_
#define HYDRANT_MODEL_GRAMMAR_CALL_READER_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/grammar/json_machine.h"
#include "model/grammar/notation/argument_types.h"

namespace hydrant::grammar {

struct CallEvent {
  enum class Kind : uint8_t {
    kText,
    kCall,       // `text` is the name of the tool; its arguments follow
    kArguments,  // a piece of their JSON text
    kCallEnd,    // the arguments are whole
  };
  Kind kind = Kind::kText;
  std::string text;

  bool operator==(const CallEvent&) const = default;
};

class CallReader {
 public:
  // `loose`: texts come as no grammar held them, and become what JsonOfArgument makes of them; they are then passed on whole, but for one
  // that can only be a string. `types`: what the arguments of each tool may be; null: anything. It must outlive the reader. `in_lines`: the
  // line that begins a text that comes so is none of it.
  explicit CallReader(bool loose = false, const ArgumentTypes* types = nullptr, bool in_lines = true)
      : loose_(loose), in_lines_(in_lines), types_(types) {}

  // REQUIRES: an entry in `regions` for each byte.
  void Push(std::string_view bytes, std::span<const ByteRegion> regions, std::vector<CallEvent>& events);
  // The end of the answer; `whole`: the grammar accepts it here. What is not decided is text.
  void Finish(bool whole, std::vector<CallEvent>& events);
  // The end of a call whose arguments are not whole: adds what came of the one that was being read, a string without its end. What may
  // be the mark behind it is left out. REQUIRES: loose.
  void Cut(std::vector<CallEvent>& events);
  // Bytes at the end that may be text or not.
  size_t undecided() const { return undecided_.size(); }
  // Behind a name whose arguments are not whole.
  bool in_call() const { return in_call_; }
  // Nothing of an argument that came last is still to be said.
  bool argument_whole() const {
    return !awaits_value_ && region_ != Region::kKey && region_ != Region::kString && region_ != Region::kValue;
  }
  // Within an argument that is passed on as it comes. REQUIRES: loose.
  bool passes_value() const { return passes_value_; }
  // What the last byte was of which that is known.
  Region region() const { return region_; }

 private:
  void Take(char byte, Region region, std::vector<CallEvent>& events);
  void Leave(Region next, std::vector<CallEvent>& events);
  // What the argument that comes may be.
  JsonKinds KindsHere() const;
  void EndCall(std::vector<CallEvent>& events);
  void Add(CallEvent::Kind kind, std::string_view text, std::vector<CallEvent>& events);

  bool loose_, in_lines_;
  const ArgumentTypes* types_;
  std::string undecided_;
  std::vector<Region> candidates_;  // what those bytes are if they are no text
  Region region_ = Region::kText;
  bool in_call_ = false;  // behind a name
  bool is_json_ = false;  // arguments came as one object
  bool has_arguments_ = false;
  bool awaits_value_ = false;  // behind a key
  bool value_begins_ = false;  // nothing of it came
  bool passes_value_ = false;  // within a string that needs no more to be known as one
  std::string name_, value_;
  std::string tool_, key_;  // of the call and the argument that come
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_CALL_READER_H_
