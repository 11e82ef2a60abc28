// ForeignFields are the request fields that other servers know and this one does not have: the one table of what becomes
// of each. A field that would change the answer is refused by name, unless its value asks for nothing; one that cannot change
// it is ignored, and the table says why. docs/compatibility.md has these rows.
//
// Thread: any (constants, pure functions).
//
// Invariants:
//  1. A name occurs once, and no reader of /v1/completions and /v1/chat/completions reads it, but for the name of a chat
//     (ReadChatKey).
//  2. docs/compatibility.md has these rows in this order (tests/api/request/foreign_fields_test.cc compares).
#ifndef HYDRANT_API_REQUEST_FOREIGN_FIELDS_H_
#define HYDRANT_API_REQUEST_FOREIGN_FIELDS_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "api/wire/object_reader.h"

namespace hydrant {

// The values that ask for nothing, beside null.
enum class NeutralValue : uint8_t {
  kNone,
  kZero,      // 0
  kOne,       // 1
  kMinusOne,  // -1
  kFalse,
  kTrue,
  kEmpty,     // "", [] or {}
  kMedium,    // "medium", OpenAI's usual answer
  kDisabled,  // "disabled"
  kAny,       // every value: the field is ignored
};

struct ForeignField {
  std::string_view name;
  std::string_view origin;  // the server or API that knows it
  NeutralValue neutral = NeutralValue::kNone;
  // Refused: the field here that does the same, as JSON would name it ("kv.policy"), or "". Ignored: why no answer depends on it.
  std::string_view note;

  bool ignored() const { return neutral == NeutralValue::kAny; }
};

// By origin, then by name.
std::span<const ForeignField> ForeignFields();

// Whether the value asks for nothing. REQUIRES: value is present and not null.
bool IsNeutral(NeutralValue neutral, JsonView value);

// Sets request's error at the first field of the table whose value asks for something; those of `own` the endpoint reads.
void RefuseForeignFields(ObjectReader* request, std::span<const std::string_view> own = {});

}  // namespace hydrant

#endif  // HYDRANT_API_REQUEST_FOREIGN_FIELDS_H_
