#include "server/process/host_facts.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

// The first word of a file; empty when there is none.
std::string FirstWord(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// The number in a file that holds one, or "max"; a huge one when there is none.
int64_t NumberIn(const std::string& path) {
  int64_t value = 0;
  return absl::SimpleAtoi(FirstWord(path), &value) ? value : std::numeric_limits<int64_t>::max();
}

}  // namespace

int32_t UsableCores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 1;
  // Two hardware threads of a core share its multipliers; the list of siblings names the core.
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const std::string siblings =
        FirstWord(absl::StrCat("/sys/devices/system/cpu/cpu", cpu, "/topology/thread_siblings_list"));
    cores.insert(siblings.empty() ? absl::StrCat("cpu", cpu) : siblings);
  }
  auto count = static_cast<int32_t>(cores.size());
  std::ifstream quota_file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  double limit = 0;
  if (quota_file >> quota >> period && absl::SimpleAtod(quota, &limit) && period > 0) {
    count = std::min(count, static_cast<int32_t>(std::ceil(limit / period)));
  }
  return std::max(1, count);
}

int64_t AvailableMemoryBytes() {
  int64_t available = 0;
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::string unit;
  int64_t kib = 0;
  while (file >> name >> kib) {
    if (name == "MemAvailable:") available = kib * 1024;
    std::getline(file, unit);
  }
  const int64_t limit = NumberIn("/sys/fs/cgroup/memory.max");
  const int64_t used = NumberIn("/sys/fs/cgroup/memory.current");
  if (limit != std::numeric_limits<int64_t>::max() && used != std::numeric_limits<int64_t>::max()) {
    available = std::min(available, std::max<int64_t>(0, limit - used));
  }
  return available;
}

int64_t RaiseOpenFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  if (limit.rlim_cur < limit.rlim_max) {
    rlimit raised = limit;
    raised.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, 1 << 30));
}

}  // namespace hydrant
