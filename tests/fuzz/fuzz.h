// What every fuzz target shares: libFuzzer's entry, and Require. A target's one source file includes this and defines Fuzz.
#ifndef HYDRANT_TESTS_FUZZ_FUZZ_H_
#define HYDRANT_TESTS_FUZZ_FUZZ_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace hydrant {

// One input. Crashes, sanitizer reports and Require end the run.
void Fuzz(std::string_view input);

// Ends the run when a property does not hold; libFuzzer keeps the input.
inline void Require(bool holds, const char* property) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", property);
  std::abort();
}

}  // namespace hydrant

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  hydrant::Fuzz(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}

#endif  // HYDRANT_TESTS_FUZZ_FUZZ_H_
