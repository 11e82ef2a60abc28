#include "server/process/systemd_notifier.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace hydrant {
namespace {

constexpr const char* kVariables[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
                                      "LISTEN_FDS",    "LISTEN_PID",    "LISTEN_FDNAMES"};

class SystemdNotifierTest : public testing::Test {
 protected:
  ~SystemdNotifierTest() override {
    for (const char* name : kVariables) unsetenv(name);
  }
  static void Set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }
  static std::string Me() { return std::to_string(getpid()); }
};

// The manager's end of NOTIFY_SOCKET; `name` begins with '@' for an abstract one.
class NotifySocket {
 public:
  explicit NotifySocket(const std::string& name) : fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), bytes), 0);
  }
  ~NotifySocket() { close(fd_); }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  // The next datagram, or "".
  std::string Read() {
    char text[256];
    const ssize_t got = recv(fd_, text, sizeof(text), 0);
    return got < 0 ? "" : std::string(text, static_cast<size_t>(got));
  }

 private:
  const int fd_;
};

TEST_F(SystemdNotifierTest, WithoutOneNothingIsSaidOrTaken) {
  const auto manager = SystemdNotifier::FromEnvironment();
  ASSERT_TRUE(manager.ok());
  manager->Notify("READY=1");
  EXPECT_EQ(manager->watchdog_us(), 0);
  EXPECT_FALSE(manager->socket().has_value());
}

TEST_F(SystemdNotifierTest, LinesArriveInADatagramEach) {
  const std::string directory = testing::TempDir();
  for (const std::string& name : {"@hydrant-notify-" + Me(), directory + "notify-" + Me()}) {
    NotifySocket socket(name);
    Set("NOTIFY_SOCKET", name);
    const auto manager = SystemdNotifier::FromEnvironment();
    ASSERT_TRUE(manager.ok());
    manager->Notify("READY=1\nSTATUS=Serving");
    manager->Notify("WATCHDOG=1");
    EXPECT_EQ(socket.Read(), "READY=1\nSTATUS=Serving") << name;
    EXPECT_EQ(socket.Read(), "WATCHDOG=1") << name;
    if (name[0] == '/') unlink(name.c_str());
  }
}

TEST_F(SystemdNotifierTest, AnAddressThatCannotBeIsIgnored) {
  for (const std::string& name :
       {std::string("/"), std::string("vsock:2:1234"), "/" + std::string(200, 'x'), std::string("/nobody/is/there")}) {
    Set("NOTIFY_SOCKET", name);
    const auto manager = SystemdNotifier::FromEnvironment();
    ASSERT_TRUE(manager.ok());
    manager->Notify("READY=1");
  }
}

TEST_F(SystemdNotifierTest, NoChildInheritsTheVariables) {
  for (const char* name : kVariables) Set(name, "1");
  ASSERT_TRUE(SystemdNotifier::FromEnvironment().ok());
  for (const char* name : kVariables) EXPECT_EQ(std::getenv(name), nullptr) << name;
}

TEST_F(SystemdNotifierTest, TheWatchdogIsForTheProcessItNames) {
  const auto period = [](const std::string& usec, const std::string& pid) {
    Set("WATCHDOG_USEC", usec);
    if (!pid.empty()) Set("WATCHDOG_PID", pid);
    return SystemdNotifier::FromEnvironment()->watchdog_us();
  };
  EXPECT_EQ(period("30000000", Me()), 30'000'000);
  EXPECT_EQ(period("30000000", ""), 30'000'000);
  EXPECT_EQ(period("30000000", "1"), 0);
  EXPECT_EQ(period("0", Me()), 0);
  EXPECT_EQ(period("-5", Me()), 0);
  EXPECT_EQ(period("soon", Me()), 0);
}

// What stands at descriptor 3 for the time of a test.
class AtThree {
 public:
  explicit AtThree(int fd) : saved_(fcntl(3, F_DUPFD_CLOEXEC, 10)) {
    dup2(fd, 3);
    if (fd != 3) close(fd);
  }
  ~AtThree() {
    if (saved_ >= 0) {
      dup2(saved_, 3);
      close(saved_);
    } else {
      close(3);
    }
  }
  AtThree(const AtThree&) = delete;
  AtThree& operator=(const AtThree&) = delete;

 private:
  const int saved_;
};

int Socket(int family, int type, bool listening) {
  const int fd = socket(family, type, 0);
  sockaddr_storage address{};
  address.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET) reinterpret_cast<sockaddr_in&>(address).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (family == AF_INET6) reinterpret_cast<sockaddr_in6&>(address).sin6_addr = in6addr_loopback;
  const socklen_t bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), bytes) != 0 || (listening && listen(fd, 1) != 0)) {
    close(fd);
    return -1;
  }
  return fd;
}

TEST_F(SystemdNotifierTest, AListeningSocketIsTakenOver) {
  for (const auto& [family, host] : {std::pair(AF_INET, "127.0.0.1"), std::pair(AF_INET6, "::1")}) {
    const int fd = Socket(family, SOCK_STREAM, true);
    if (fd < 0) continue;  // no IPv6 here
    const AtThree three(fd);
    Set("LISTEN_FDS", "1");
    Set("LISTEN_PID", Me());
    const auto manager = SystemdNotifier::FromEnvironment();
    ASSERT_TRUE(manager.ok()) << manager.status();
    ASSERT_TRUE(manager->socket().has_value());
    EXPECT_EQ(manager->socket()->fd, 3);
    EXPECT_EQ(manager->socket()->host, host);
    EXPECT_NE(manager->socket()->port, 0);
    EXPECT_EQ(fcntl(3, F_GETFD), FD_CLOEXEC);
  }
}

TEST_F(SystemdNotifierTest, SocketsOfAnotherProcessAreLeftAlone) {
  Set("LISTEN_FDS", "1");
  Set("LISTEN_PID", "1");
  const auto manager = SystemdNotifier::FromEnvironment();
  ASSERT_TRUE(manager.ok());
  EXPECT_FALSE(manager->socket().has_value());
}

TEST_F(SystemdNotifierTest, WhatIsNotOneListeningSocketIsRefused) {
  const auto refused = [](const char* count) {
    Set("LISTEN_FDS", count);
    Set("LISTEN_PID", Me());
    return SystemdNotifier::FromEnvironment().status().code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused("2"));
  {
    const AtThree connected(Socket(AF_INET, SOCK_STREAM, /*listening=*/false));
    EXPECT_TRUE(refused("1"));
  }
  {
    const AtThree datagrams(Socket(AF_INET, SOCK_DGRAM, /*listening=*/false));
    EXPECT_TRUE(refused("1"));
  }
  const AtThree file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(refused("1"));
}

}  // namespace
}  // namespace hydrant
