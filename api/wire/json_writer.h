// Pieces of JSON text. Bodies are written straight into a buffer: no value tree, no exception, no surprise.
//
// Thread: any (pure functions).
#ifndef HYDRANT_API_WIRE_JSON_WRITER_H_
#define HYDRANT_API_WIRE_JSON_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hydrant {

// "text" with its quotes. Invalid UTF-8 becomes U+FFFD (one per maximal invalid piece, as Python's errors="replace");
// control characters and every character some client takes for a line end (U+0085, U+2028, U+2029) are escaped.
void AppendJsonString(std::string* out, std::string_view text);
// AppendJsonString without the quotes.
void AppendJsonEscaped(std::string* out, std::string_view text);
// The string, or null when it is empty.
void AppendJsonStringOrNull(std::string* out, std::string_view text);
void AppendJsonInteger(std::string* out, int64_t value);
// The number, or null when it is not positive.
void AppendJsonIntegerOrNull(std::string* out, int64_t value);
// The shortest text that reads back as the same float, always with a fraction or an exponent. Not finite: -9999.0.
void AppendJsonFloat(std::string* out, float value);
void AppendJsonBool(std::string* out, bool value);
// [1,2,3]
void AppendJsonIntegers(std::string* out, std::span<const int32_t> values);

// The beginning of `text` as valid UTF-8 of at most `bytes_max` bytes, ending after a whole character. What is not UTF-8
// becomes U+FFFD as above.
std::string ToValidUtf8(std::string_view text, size_t bytes_max);
// True if `text` is valid UTF-8 (no overlong form, no surrogate, at most U+10FFFF).
bool IsValidUtf8(std::string_view text);

}  // namespace hydrant

#endif  // HYDRANT_API_WIRE_JSON_WRITER_H_
