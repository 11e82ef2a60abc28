#ifndef HYDRANT_SERVER_PROCESS_VERSION_H_
#define HYDRANT_SERVER_PROCESS_VERSION_H_

namespace hydrant {

// The same number as project(VERSION) in CMakeLists.txt, which defines HYDRANT_VERSION.
inline constexpr char kVersion[] = HYDRANT_VERSION;

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_VERSION_H_
