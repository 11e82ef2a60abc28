// A file of its own: the C library's header of this name has an older tcp_info.
#include "loadgen/client/acknowledged_bytes.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace hydrant {

uint64_t AcknowledgedBytes(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof(info);
  return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 ? info.tcpi_bytes_acked : 0;
}

}  // namespace hydrant
