// The version of this build; CMake's project() is the only place where it is written.
#ifndef HYDRANT_LOADGEN_VERSION_H_
#define HYDRANT_LOADGEN_VERSION_H_

namespace hydrant {

inline constexpr const char* kLoadgenVersion = HYDRANT_VERSION;

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_VERSION_H_
