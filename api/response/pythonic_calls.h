// Calls as a Python program writes them, [name(key=value, …), …], perhaps in Llama 4's marks. They are all of an answer or none of it, and
// no call is one before all are whole.
//
// Thread: any (pure functions).
#ifndef HYDRANT_API_RESPONSE_PYTHONIC_CALLS_H_
#define HYDRANT_API_RESPONSE_PYTHONIC_CALLS_H_

#include <optional>
#include <string_view>

#include "api/response/answer_piece.h"

namespace hydrant {

// Whether an answer that begins so, without white space before it, may be such calls. It takes no longer than what decides that.
bool MayBePythonicCalls(std::string_view begin);

// The calls of a whole answer; nullopt: it is something else. Their ids are for the caller to say.
std::optional<AnswerPieces> ReadPythonicCalls(std::string_view answer);

}  // namespace hydrant

#endif  // HYDRANT_API_RESPONSE_PYTHONIC_CALLS_H_
