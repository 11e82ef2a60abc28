#include "server/process/secrecy.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace hydrant {

void ForbidCoreDumps() {
  // The first keeps away handlers such as systemd-coredump, which the second does not reach.
  (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  const rlimit none = {0, 0};
  (void)setrlimit(RLIMIT_CORE, &none);
}

void ForgetArguments(std::span<char*> arguments, std::span<const char* const> flags) {
  const auto is = [&](std::string_view name) {
    std::string normal(name);
    std::replace(normal.begin(), normal.end(), '_', '-');
    return std::find(flags.begin(), flags.end(), normal) != flags.end();
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    char* equals = std::strchr(arguments[i], '=');
    char* value = nullptr;
    if (equals != nullptr && is(std::string_view(arguments[i], static_cast<size_t>(equals - arguments[i])))) {
      value = equals + 1;
    } else if (i + 1 < arguments.size() && is(arguments[i])) {
      value = arguments[++i];
    }
    if (value != nullptr) std::memset(value, '*', std::strlen(value));
  }
}

void ForgetVariable(const char* name) {
  char* value = std::getenv(name);
  if (value == nullptr) return;
  std::memset(value, 0, std::strlen(value));
  (void)unsetenv(name);
}

}  // namespace hydrant
