// FormatCallReader finds tool calls in what a model writes by the grammar of their format, with any names and any arguments.
//
// A call is told of once that cannot be taken back: with the first byte of its arguments where they are JSON, with the first whole
// argument where they are written otherwise. From then on it is a call, and ends where its arguments stop being some; what came of
// an argument by then is said. What closes a call is nobody's text, and text from where it turns out to be nothing of the kind.
//
// Thread: any; belongs to one choice of one answer.
//
// Invariants
//  1. Before it is told of, nothing of what begins like a call is passed on; if it is none, all of it is text.
//  2. However the text is cut into pieces, the same comes out.
//  3. It takes time linear in the text.
#ifndef HYDRANT_API_RESPONSE_FORMAT_CALL_READER_H_
#define HYDRANT_API_RESPONSE_FORMAT_CALL_READER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/response/answer_piece.h"
#include "model/grammar/call_reader.h"
#include "model/grammar/grammar.h"

namespace hydrant {

class FormatCallReader {
 public:
  // `hands_over`: what begins like a call and is none is for the caller to look at. `types`: what arguments may be that the format
  // writes as bare text; null: anything.
  // REQUIRES: grammar::FindToolFormat knows the format.
  explicit FormatCallReader(std::string_view format, bool hands_over = false,
                            std::shared_ptr<const grammar::ArgumentTypes> types = nullptr);

  // Returns how many bytes were read. They are fewer than there are where something is handed over: it is TakeHeld and all that
  // comes behind it, from the mark with which a call begins or from what parts a call from the one before; whatever is pushed next
  // begins anew. A call's number and id are for the caller to say.
  size_t Push(std::string_view text, AnswerPieces* pieces);
  // Ends the text: what was held back is a call if it is whole, or text; true: it is handed over.
  bool Finish(AnswerPieces* pieces);
  std::string TakeHeld();
  size_t held_bytes() const { return held_.size(); }

 private:
  size_t Advance(std::string_view text);
  void Take(char byte, const grammar::ByteRegion& region, AnswerPieces* pieces);
  // `recent`: bytes at the end of what is held of which nothing was known before the last of them.
  void TakeEvents(size_t recent, AnswerPieces* pieces);
  void Tell(AnswerPieces* pieces);
  // What was held back is no call: true if it is handed over.
  bool GiveUp(AnswerPieces* pieces);
  // Reads that anew which closed a call as it seemed.
  bool ReadAgain(const std::string& text, AnswerPieces* pieces);
  bool GoesOn(std::string_view held) const;
  void CutArgument();
  void EndCall(bool whole, AnswerPieces* pieces);
  void BeginAnew();
  grammar::CallReader NewReader() const;
  bool IsInPlainText() const;
  bool IsInText();
  bool ArgumentsAreWhole();

  const bool hands_over_;
  const std::shared_ptr<const grammar::ArgumentTypes> types_;
  bool is_json_ = true;   // the format's arguments are
  bool in_lines_ = true;  // they have lines of their own
  std::string_view trigger_;
  std::shared_ptr<grammar::Grammar> grammar_;
  grammar::GrammarState state_;
  grammar::CallReader reader_;
  std::vector<grammar::ByteRegion> regions_;  // of the bytes that Advance took
  std::vector<grammar::CallEvent> events_;
  std::string held_;           // bytes of which nothing was passed on
  size_t end_bytes_ = 0;       // of them, at the front: they close a call, if that is what they are
  std::string name_, untold_;  // of a call that has begun: its name, and arguments that were not passed on
  bool told_ = false;          // of that call
  bool in_list_ = false;       // behind a call, where another may follow that has no mark of its own
  bool has_calls_ = false;     // there was one
  bool passes_all_ = false;    // calls are all of the answer, and this one is text from here on
};

}  // namespace hydrant

#endif  // HYDRANT_API_RESPONSE_FORMAT_CALL_READER_H_
