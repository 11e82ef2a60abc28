#include "server/process/systemd_notifier.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

// SD_LISTEN_FDS_START: where inherited descriptors begin.
constexpr int kFirstInherited = 3;

// The variable's value, which is then gone. Empty: not set.
std::string TakeVariable(const char* name) {
  const char* value = std::getenv(name);
  std::string taken = value == nullptr ? "" : value;
  ::unsetenv(name);
  return taken;
}

// Variables that name a process are meant for that one alone: a wrapper between us and the manager may not have removed
// its own.
bool ForUs(const std::string& pid) {
  int64_t number = 0;
  return absl::SimpleAtoi(pid, &number) && number == ::getpid();
}

absl::StatusOr<InheritedSocket> Inherit(int fd) {
  const auto is_set = [fd](int option, int wanted) {
    int value = 0;
    socklen_t bytes = sizeof(value);
    return ::getsockopt(fd, SOL_SOCKET, option, &value, &bytes) == 0 && value == wanted;
  };
  sockaddr_storage bound{};
  socklen_t bytes = sizeof(bound);
  if (!is_set(SO_TYPE, SOCK_STREAM) || !is_set(SO_ACCEPTCONN, 1) ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &bytes) != 0 ||
      (bound.ss_family != AF_INET && bound.ss_family != AF_INET6)) {
    return absl::InvalidArgumentError("LISTEN_FDS: the descriptor is not a listening TCP socket");
  }
  (void)::fcntl(fd, F_SETFD, FD_CLOEXEC);
  InheritedSocket socket;
  socket.fd = fd;
  char text[INET6_ADDRSTRLEN] = "";
  if (bound.ss_family == AF_INET) {
    const auto& address = reinterpret_cast<const sockaddr_in&>(bound);
    (void)::inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text));
    socket.port = ntohs(address.sin_port);
  } else {
    const auto& address = reinterpret_cast<const sockaddr_in6&>(bound);
    (void)::inet_ntop(AF_INET6, &address.sin6_addr, text, sizeof(text));
    socket.port = ntohs(address.sin6_port);
  }
  socket.host = text;
  return socket;
}

}  // namespace

absl::StatusOr<SystemdNotifier> SystemdNotifier::FromEnvironment() {
  SystemdNotifier manager;
  manager.notify_path_ = TakeVariable("NOTIFY_SOCKET");
  const std::string watchdog = TakeVariable("WATCHDOG_USEC");
  const std::string watched = TakeVariable("WATCHDOG_PID");
  const std::string count = TakeVariable("LISTEN_FDS");
  const std::string owner = TakeVariable("LISTEN_PID");
  TakeVariable("LISTEN_FDNAMES");
  // Without WATCHDOG_PID it is for whoever reads it (sd_watchdog_enabled(3)).
  int64_t watchdog_us = 0;
  if (absl::SimpleAtoi(watchdog, &watchdog_us) && watchdog_us > 0 && (watched.empty() || ForUs(watched))) {
    manager.watchdog_us_ = watchdog_us;
  }
  int32_t sockets = 0;
  if (!ForUs(owner) || !absl::SimpleAtoi(count, &sockets) || sockets <= 0) return manager;
  if (sockets > 1) return absl::InvalidArgumentError(absl::StrCat("LISTEN_FDS: ", sockets, " sockets; we take one"));
  absl::StatusOr<InheritedSocket> socket = Inherit(kFirstInherited);
  if (!socket.ok()) return socket.status();
  manager.socket_ = *std::move(socket);
  return manager;
}

void SystemdNotifier::Notify(std::string_view lines) const {
  sockaddr_un address{};
  // '@' stands for the zero byte that begins an abstract name.
  if (notify_path_.size() < 2 || notify_path_.size() > sizeof(address.sun_path) - 1) return;
  if (notify_path_[0] != '/' && notify_path_[0] != '@') return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, notify_path_.data(), notify_path_.size());
  if (notify_path_[0] == '@') address.sun_path[0] = '\0';
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + notify_path_.size());
  (void)::sendto(fd, lines.data(), lines.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), bytes);
  ::close(fd);
}

}  // namespace hydrant
