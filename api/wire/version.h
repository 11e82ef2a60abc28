// The version of this build, which --version, GET /version and a response's system_fingerprint say.
//
// Thread: any (a constant).
#ifndef HYDRANT_API_WIRE_VERSION_H_
#define HYDRANT_API_WIRE_VERSION_H_

namespace hydrant {

// The number of project(VERSION) in CMakeLists.txt.
extern const char kVersion[];

}  // namespace hydrant

#endif  // HYDRANT_API_WIRE_VERSION_H_
