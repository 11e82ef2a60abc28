#include "server/process/secrecy.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>

namespace hydrant {

void ForbidCoreDumps() {
  // The first keeps away handlers such as systemd-coredump, which the second does not reach.
  (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  const rlimit none = {0, 0};
  (void)setrlimit(RLIMIT_CORE, &none);
}

void ForgetVariable(const char* name) {
  char* value = std::getenv(name);
  if (value == nullptr) return;
  std::memset(value, 0, std::strlen(value));
  (void)unsetenv(name);
}

}  // namespace hydrant
