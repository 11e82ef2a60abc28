// SystemdNotifier speaks to the process that started this one, where that is systemd or knows its protocol: it says how
// far we are (sd_notify(3)), and takes over a socket that listens already (sd_listen_fds(3)). Both are a few environment
// variables and one datagram, which systemd promises never to change; libsystemd would bring five more libraries.
//
// Thread: FromEnvironment before there are others; the rest any.
#ifndef HYDRANT_SERVER_PROCESS_SYSTEMD_NOTIFIER_H_
#define HYDRANT_SERVER_PROCESS_SYSTEMD_NOTIFIER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace hydrant {

// A TCP socket that listens already, most often since before this process began. The listener that is opened with it owns the
// descriptor.
struct InheritedSocket {
  int fd = -1;
  std::string host;  // numeric address it is bound to, or that of its family which means any
  uint16_t port = 0;
  bool outlives = true;  // this process: whoever connects at its end waits for the next one
};

class SystemdNotifier {
 public:
  // A notifier without a peer: Notify does nothing.
  SystemdNotifier() = default;

  // Reads NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID, LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES and removes them, so that
  // no child mistakes them for its own. INVALID_ARGUMENT: what was handed over is not one listening TCP socket.
  static absl::StatusOr<SystemdNotifier> FromEnvironment();

  // Sends lines of sd_notify(3), for example "READY=1". Never waits; where nobody listens it does nothing.
  void Notify(std::string_view lines) const;

  // Without a "WATCHDOG=1" for this long, in microseconds, the manager ends the process. 0: it does not watch.
  int64_t watchdog_us() const { return watchdog_us_; }
  const std::optional<InheritedSocket>& socket() const { return socket_; }

 private:
  std::string notify_path_;  // as in NOTIFY_SOCKET; empty: none
  int64_t watchdog_us_ = 0;
  std::optional<InheritedSocket> socket_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_SYSTEMD_NOTIFIER_H_
