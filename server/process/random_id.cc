#include "server/process/random_id.h"

#include <sys/random.h>

#include <array>
#include <cassert>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

// At most 256 bytes from the initialised pool never come short and are never interrupted (getrandom(2)).
template <typename T>
T FromKernel() {
  T bytes;
  const ssize_t got = getrandom(&bytes, sizeof(bytes), 0);
  assert(got == static_cast<ssize_t>(sizeof(bytes)));
  return bytes;
}

}  // namespace

std::string RandomId() {
  const auto words = FromKernel<std::array<uint64_t, 2>>();
  return absl::StrCat(absl::Hex(words[0], absl::kZeroPad16), absl::Hex(words[1], absl::kZeroPad16));
}

uint64_t RandomSeed() { return FromKernel<uint64_t>(); }

}  // namespace hydrant
