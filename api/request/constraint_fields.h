// Reads what a request says about the form of its answer, under every name that it has: OpenAI's `response_format`, vLLM's
// `structured_outputs` and its older `guided_*`, llama.cpp's and SGLang's `json_schema`, SGLang's `regex`, Anthropic's
// `output_config.format`.
//
// Thread: any (pure functions).
#ifndef HYDRANT_API_REQUEST_CONSTRAINT_FIELDS_H_
#define HYDRANT_API_REQUEST_CONSTRAINT_FIELDS_H_

#include <optional>
#include <string>
#include <string_view>

#include "api/request/constraint.h"
#include "api/wire/json_body.h"
#include "api/wire/object_reader.h"

namespace hydrant {

// Sets request's error: 400 that names the field; conflicting_constraints where two fields ask for something.
std::optional<Constraint> ReadConstraint(ObjectReader* request);

// One such object as `response_format` is, by its `type`: text, json_object, json_schema, regex, grammar or structural_tag. The
// schema is in the member `schema`, of the object or of its member `json_schema`. Nothing where it asks for nothing, or with request's error.
// `path`: of the object, in the request.
std::optional<Constraint> ReadTextFormat(ObjectReader* request, JsonView format, const std::string& path);

// Why a schema breaks the rules that OpenAI has for `strict`: an object at the root, and of every object all properties required and
// no others allowed. Empty: it keeps to them. With the JSON Pointer of the place.
std::string StrictFault(JsonView schema);

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_CONSTRAINT_FIELDS_H_
