// StrCat puts strings and numbers together, Joined names: absl's, taking std::string_view too, which this distribution's absl does
// not know.
//
// Thread: any.
#ifndef HYDRANT_MODEL_TEXT_STR_CAT_H_
#define HYDRANT_MODEL_TEXT_STR_CAT_H_

#include <functional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace hydrant {

// A part as absl knows it, for its other functions, too.
inline absl::string_view AbslPart(std::string_view text) { return {text.data(), text.size()}; }
template <typename T>
const T& AbslPart(const T& part) {
  return part;
}

template <typename... Parts>
std::string StrCat(const Parts&... parts) {
  return absl::StrCat(AbslPart(parts)...);
}

// name_of(each) of each in `range`, a function's or a member's, with `separator` between them.
template <typename Range, typename NameOf = std::identity>
std::string Joined(const Range& range, std::string_view separator, const NameOf& name_of = {}) {
  return absl::StrJoin(range, AbslPart(separator),
                       [&](std::string* out, const auto& each) { out->append(std::invoke(name_of, each)); });
}

}  // namespace hydrant

#endif  // HYDRANT_MODEL_TEXT_STR_CAT_H_
