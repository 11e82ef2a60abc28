// The regular expressions of a tool's JSON schema. They are text for the chat template: nothing compiles or runs one, so that
// no pattern costs more than the bytes it has.
//
// Thread: any.
#ifndef HYDRANT_API_REQUEST_SCHEMA_PATTERN_H_
#define HYDRANT_API_REQUEST_SCHEMA_PATTERN_H_

#include <string_view>

namespace hydrant {

// Why `pattern` is no regular expression; empty: it may be one. Looked for is only what no common dialect takes: what does not
// close, ends within an escape or repeats nothing. Of a class with nothing in it, `[]`, ECMAScript is right, which JSON Schema
// names. One pass, no recursion.
std::string_view PatternFault(std::string_view pattern);

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_SCHEMA_PATTERN_H_
