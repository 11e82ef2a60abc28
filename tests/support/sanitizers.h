// Which sanitizer a test runs under: an instrumented program takes about ten times as long and looks for other things than
// rare numbers, so it tries fewer random cases.
#ifndef HYDRANT_TESTS_SUPPORT_SANITIZERS_H_
#define HYDRANT_TESTS_SUPPORT_SANITIZERS_H_

// GCC and Clang say it in different ways.
#if defined(__has_feature)
#define HYDRANT_HAS_FEATURE(feature) __has_feature(feature)
#else
#define HYDRANT_HAS_FEATURE(feature) 0
#endif

namespace hydrant {

#if defined(__SANITIZE_THREAD__) || HYDRANT_HAS_FEATURE(thread_sanitizer)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

#if defined(__SANITIZE_ADDRESS__) || HYDRANT_HAS_FEATURE(address_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = kThreadSanitizer;
#endif

}  // namespace hydrant

#undef HYDRANT_HAS_FEATURE

#endif  // HYDRANT_TESTS_SUPPORT_SANITIZERS_H_
