// What of a TCP connection the other machine's system says it has received: a process there may have read it, and no other byte.
//
// Thread: any.
#ifndef HYDRANT_LOADGEN_CLIENT_ACKNOWLEDGED_BYTES_H_
#define HYDRANT_LOADGEN_CLIENT_ACKNOWLEDGED_BYTES_H_

#include <cstdint>

namespace hydrant {

// Since the connection began. 0 where `fd` is no such connection.
uint64_t AcknowledgedBytes(int fd);

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_CLIENT_ACKNOWLEDGED_BYTES_H_
