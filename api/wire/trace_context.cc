#include "api/wire/trace_context.h"

#include <algorithm>
#include <cstddef>

namespace hydrant {
namespace {

// version "-" trace-id "-" parent-id "-" flags, of 2, 32, 16 and 2 digits.
constexpr size_t kTraceBegin = 3;
constexpr size_t kTraceDigits = 32;
constexpr size_t kParentBegin = 36;
constexpr size_t kParentDigits = 16;
constexpr size_t kFlagsBegin = 53;
constexpr size_t kPairDigits = 2;
constexpr size_t kBytes = 55;

bool IsLowerHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsZero(std::string_view text) { return text.find_first_not_of('0') == std::string_view::npos; }

}  // namespace

std::optional<std::string_view> TraceIdOf(std::string_view traceparent) {
  if (traceparent.size() < kBytes) return std::nullopt;
  const std::string_view version = traceparent.substr(0, kPairDigits);
  const std::string_view trace = traceparent.substr(kTraceBegin, kTraceDigits);
  const std::string_view parent = traceparent.substr(kParentBegin, kParentDigits);
  const std::string_view flags = traceparent.substr(kFlagsBegin, kPairDigits);
  for (const size_t dash : {kTraceBegin - 1, kParentBegin - 1, kFlagsBegin - 1}) {
    if (traceparent[dash] != '-') return std::nullopt;
  }
  for (const std::string_view part : {version, trace, parent, flags}) {
    if (!IsLowerHex(part)) return std::nullopt;
  }
  if (version == "ff" || IsZero(trace) || IsZero(parent)) return std::nullopt;
  if (traceparent.size() > kBytes && (version == "00" || traceparent[kBytes] != '-')) return std::nullopt;
  return trace;
}

}  // namespace hydrant
