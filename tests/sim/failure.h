// The first thing that went wrong in an episode. Later ones are its consequences and are dropped.
#ifndef HYDRANT_TESTS_SIM_FAILURE_H_
#define HYDRANT_TESTS_SIM_FAILURE_H_

#include <string>

#include "absl/strings/str_cat.h"

namespace hydrant::sim {

class Failure {
 public:
  // Returns false, for `return failure.Set(…)`.
  template <typename... Parts>
  bool Set(const Parts&... parts) {
    if (text_.empty()) text_ = absl::StrCat(parts...);
    return false;
  }
  bool any() const { return !text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace hydrant::sim

#endif  // HYDRANT_TESTS_SIM_FAILURE_H_
