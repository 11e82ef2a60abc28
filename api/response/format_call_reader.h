// FormatCallReader finds tool calls in what a model writes by the grammar of their format, with any names and any arguments.
//
// Thread: any; belongs to one choice of one answer.
//
// Invariant: the texts of all parts, one after the other, are what came.
#ifndef HYDRANT_API_RESPONSE_FORMAT_CALL_READER_H_
#define HYDRANT_API_RESPONSE_FORMAT_CALL_READER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/grammar/call_reader.h"
#include "model/grammar/grammar.h"

namespace hydrant {

class FormatCallReader {
 public:
  struct Part {
    std::string text;             // as the model wrote it
    std::string name, arguments;  // of a call; else empty
    bool closes_call = false;     // it is markup behind the last call, and nobody's text if that is one
  };
  using Output = std::vector<Part>;

  // REQUIRES: grammar::FindToolFormat knows the format.
  explicit FormatCallReader(std::string_view format);

  Output Push(std::string_view text);
  // Ends the text: what was held back is a call if it is whole, or text.
  Output Finish();

 private:
  void Take(const std::vector<grammar::CallEvent>& events, Output& output);
  // What was held back is no call; the format is looked for again from here on.
  void GiveUp(Output& output);
  void TakeMarkup(size_t bytes, Output& output);
  static void AddText(std::string_view text, Output& output);

  std::shared_ptr<grammar::Grammar> grammar_;
  grammar::GrammarState state_;
  grammar::CallReader reader_{/*loose=*/true};
  std::string held_;  // bytes that are in no part
  Part call_;         // that has begun
  bool passes_all_ = false;
  bool begins_only_ = false;  // calls are all of the answer
};

}  // namespace hydrant

#endif  // HYDRANT_API_RESPONSE_FORMAT_CALL_READER_H_
