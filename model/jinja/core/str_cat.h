// StrCat puts strings and integers together. (absl's knows its own string_view only, which here is not std's.)
#ifndef HYDRANT_MODEL_JINJA_CORE_STR_CAT_H_
#define HYDRANT_MODEL_JINJA_CORE_STR_CAT_H_

#include <concepts>
#include <string>
#include <string_view>

namespace hydrant::jinja {

inline void AppendPart(std::string& out, std::string_view part) { out.append(part); }
template <std::integral Integer>
void AppendPart(std::string& out, Integer part) {
  out.append(std::to_string(part));
}

template <typename... Parts>
std::string StrCat(const Parts&... parts) {
  std::string out;
  (AppendPart(out, parts), ...);
  return out;
}

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_CORE_STR_CAT_H_
