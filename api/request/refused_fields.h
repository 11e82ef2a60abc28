// Request fields that this server knows and cannot honour yet. Each is still checked (a value out of range is a 400
// that says so) and refused with code "unsupported" unless its value is neutral, that is, unless leaving it out would
// give the same answer. Nothing a client asked for is dropped in silence.
//
// Thread: any (pure function).
#ifndef HYDRANT_API_REQUEST_REFUSED_FIELDS_H_
#define HYDRANT_API_REQUEST_REFUSED_FIELDS_H_

#include <span>
#include <string>
#include <string_view>

#include "api/wire/object_reader.h"

namespace hydrant {

// A field as messages name it.
std::string QuotedField(std::string_view name);

// Each sets the request's error at the first field that is wrong or refused.
// The fields of every endpoint that generates, but for `own`, which the endpoint reads.
void RefuseGenerationFields(ObjectReader* request, std::span<const std::string_view> own = {});
// The fields of /v1/completions beside them.
void RefuseCompletionFields(ObjectReader* request);
// The fields of /v1/chat/completions beside them: a template is the operator's alone (`chat_template`).
void RefuseChatFields(ObjectReader* request);

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_REFUSED_FIELDS_H_
