// Looks whether a model's calls can be read back: one is rendered by its chat template and read by the format that is taken to be the model's.
//
// Thread: any (pure functions).
#ifndef HYDRANT_SERVER_GENERATION_CALL_PROBE_H_
#define HYDRANT_SERVER_GENERATION_CALL_PROBE_H_

#include <span>

#include "api/response/tool_call_parser.h"
#include "model/chat/chat_template.h"
#include "model/chat/reasoning_format.h"

namespace hydrant {

// The first of `formats` by which a call that the template renders is read back with its name and arguments; kNone: by none of them. The
// first of all where the template shows nothing: it refuses the conversations, or leaves calls out of them.
// REQUIRES: `formats` is not empty.
ToolCallFormat FormatThatReads(const ChatTemplate& chat, const ReasoningFormat& reasoning,
                               std::span<const ToolCallFormat> formats);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_GENERATION_CALL_PROBE_H_
