// AnswerPiece is what an answer's reader makes of the next bytes: text, or part of a tool call. Pieces come in the order in which the model
// wrote them, and those of a call have no text between them.
//
// Thread: any.
#ifndef HYDRANT_API_RESPONSE_ANSWER_PIECE_H_
#define HYDRANT_API_RESPONSE_ANSWER_PIECE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hydrant {

struct AnswerPiece {
  enum class Kind : uint8_t {
    kText,
    kCall,       // `text` is the name of the tool; the arguments follow
    kArguments,  // more of the text of a JSON object
    kCallEnd,    // the object is whole
    kCallCut,    // it is not, and no more of it comes
  };
  Kind kind = Kind::kText;
  std::string text;
  int32_t call = 0;  // of a call: which, from 0
  std::string id;    // kCall

  bool operator==(const AnswerPiece&) const = default;
};
using AnswerPieces = std::vector<AnswerPiece>;

// Text and arguments join the piece before where that is of the same kind; nothing happens without a text.
inline void AddPiece(AnswerPiece::Kind kind, std::string_view text, AnswerPieces* pieces, int32_t call = 0) {
  if (text.empty()) return;
  if (pieces->empty() || pieces->back().kind != kind) pieces->push_back({kind, "", call, ""});
  pieces->back().text += text;
}

}  // namespace hydrant

#endif  // HYDRANT_API_RESPONSE_ANSWER_PIECE_H_
