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

#include "api/request/foreign_fields.h"
#include "api/wire/object_reader.h"

namespace hydrant {

// A field as messages name it.
std::string QuotedField(std::string_view name);

// A field of other endpoints that has another name at this one, or no place in its answers.
struct OtherField {
  std::string_view name;
  std::string_view instead;  // empty: nothing does the same
  NeutralValue neutral = NeutralValue::kNone;
};

// Each sets the request's error at the first field that is wrong or refused.
// Those that `endpoint`, as its path names it, does not have: a request that has one, and asks for something by it, is wrong.
void RefuseOtherFields(ObjectReader* request, std::string_view endpoint, std::span<const OtherField> fields);
// The fields of every endpoint that generates, but for `own`, which the endpoint reads. `output_config` and `text` are of one of them
// each: elsewhere they have a `format` only.
void RefuseGenerationFields(ObjectReader* request, std::span<const std::string_view> own = {});
// The fields of /v1/completions beside them.
void RefuseCompletionFields(ObjectReader* request);
// The fields of /v1/chat/completions beside them: a template is the operator's alone (`chat_template`).
void RefuseChatFields(ObjectReader* request);

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_REFUSED_FIELDS_H_
