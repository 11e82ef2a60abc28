// A Redis of the test's own on a loopback port: it reads commands and answers what the test says.
#ifndef HYDRANT_TESTS_SERVER_SHARED_LIMITS_FAKE_STORE_H_
#define HYDRANT_TESTS_SERVER_SHARED_LIMITS_FAKE_STORE_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/shared_limits/store_address.h"

namespace hydrant {

class FakeStore {
 public:
  using Command = std::vector<std::string>;
  // Bytes to send; empty: no answer. On the store's own thread.
  using Handler = std::function<std::string(const Command& command)>;

  // What a store answers that grants everything.
  static std::string Granting(const Command& command) {
    if (command[0] == "SCRIPT") return "$40\r\n" + std::string(40, static_cast<char>('a' + scripts(command))) + "\r\n";
    if (command[0] == "EVALSHA" || command[0] == "EVAL") {
      return IsTake(command) ? "*3\r\n:1\r\n:7\r\n:0\r\n" : ":1\r\n";
    }
    return "+OK\r\n";
  }
  static bool IsScript(const Command& command) { return command[0] == "EVALSHA" || command[0] == "EVAL"; }
  static bool IsProbe(const Command& command) { return IsScript(command) && command[3] == "hydrant:probe"; }
  // A script with two keys and six arguments.
  static bool IsTake(const Command& command) { return IsScript(command) && command[2] == "2" && command.size() == 11; }
  static bool IsGive(const Command& command) { return IsScript(command) && command[2] == "2" && command.size() == 9; }
  static bool IsRenew(const Command& command) { return IsScript(command) && command[2] == "1"; }

  explicit FakeStore(Handler handler = Granting) : handler_(std::move(handler)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    (void)bind(listener_, reinterpret_cast<const sockaddr*>(&address), size);
    (void)listen(listener_, 8);
    (void)getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    address_.host = "127.0.0.1";
    address_.port = ntohs(address.sin_port);
    (void)pipe(stop_);
    thread_ = std::thread([this] { Run(); });
  }
  ~FakeStore() { Stop(); }
  FakeStore(const FakeStore&) = delete;
  FakeStore& operator=(const FakeStore&) = delete;

  const StoreAddress& address() const { return address_; }
  // Nobody listens any more.
  void Stop() {
    if (!thread_.joinable()) return;
    (void)!write(stop_[1], "x", 1);
    thread_.join();
    for (const int fd : {listener_, stop_[0], stop_[1]}) close(fd);
  }
  // Ends the connection that there is.
  void Drop() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (connection_ >= 0) shutdown(connection_, SHUT_RDWR);
  }
  void Handle(Handler handler) {
    const std::lock_guard<std::mutex> lock(mutex_);
    handler_ = std::move(handler);
  }
  // Sends bytes now.
  void Say(const std::string& bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    (void)send(connection_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // The first command from the `from`th on that `is` says it of, waited for; empty: it did not come within ten seconds.
  Command Await(const std::function<bool(const Command&)>& is, size_t from = 0) {
    std::unique_lock<std::mutex> lock(mutex_);
    Command found;
    heard_.wait_for(lock, std::chrono::seconds(10), [&] {
      for (size_t i = from; i < commands_.size(); ++i) {
        if (!is(commands_[i])) continue;
        found = commands_[i];
        return true;
      }
      return false;
    });
    return found;
  }
  std::vector<Command> commands() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return commands_;
  }
  size_t count() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return commands_.size();
  }
  size_t Count(const std::function<bool(const Command&)>& is) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<size_t>(std::count_if(commands_.begin(), commands_.end(), is));
  }

 private:
  static int scripts(const Command& command) {
    if (command[2].find("ZCARD") != std::string::npos) return 0;
    return command[2].find("ZREM") != std::string::npos ? 1 : 2;
  }

  void Run() {
    std::string input;
    while (true) {
      pollfd watched[] = {{stop_[0], POLLIN, 0}, {connection_ >= 0 ? connection_ : listener_, POLLIN, 0}};
      (void)poll(watched, 2, -1);
      if (watched[0].revents != 0) break;
      if (connection_ < 0) {
        const int accepted = accept(listener_, nullptr, nullptr);
        const std::lock_guard<std::mutex> lock(mutex_);
        connection_ = accepted;
        input.clear();
        continue;
      }
      std::array<char, 4096> buffer;
      const ssize_t got = recv(connection_, buffer.data(), buffer.size(), 0);
      if (got <= 0) {
        Close();
        continue;
      }
      input.append(buffer.data(), static_cast<size_t>(got));
      while (std::optional<Command> command = Take(&input)) Answer(*std::move(command));
    }
    Close();
  }
  void Close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (connection_ >= 0) close(connection_);
    connection_ = -1;
  }
  void Answer(Command command) {
    Handler handler;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      handler = handler_;
    }
    const std::string bytes = handler(command);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!bytes.empty()) (void)send(connection_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    commands_.push_back(std::move(command));
    heard_.notify_all();
  }
  // *N, then N of $LENGTH and so many bytes; nullopt: not all of it is there.
  static std::optional<Command> Take(std::string* input) {
    size_t at = 0;
    const auto number = [&](char mark) -> std::optional<size_t> {
      const size_t end = input->find("\r\n", at);
      if (end == std::string::npos || (*input)[at] != mark) return std::nullopt;
      const size_t value = std::stoul(input->substr(at + 1, end - at - 1));
      at = end + 2;
      return value;
    };
    const std::optional<size_t> words = number('*');
    if (!words.has_value()) return std::nullopt;
    Command command;
    for (size_t i = 0; i < *words; ++i) {
      const std::optional<size_t> bytes = number('$');
      if (!bytes.has_value() || input->size() < at + *bytes + 2) return std::nullopt;
      command.push_back(input->substr(at, *bytes));
      at += *bytes + 2;
    }
    input->erase(0, at);
    return command;
  }

  StoreAddress address_;
  int listener_ = -1;
  int stop_[2] = {-1, -1};
  std::mutex mutex_;
  std::condition_variable heard_;
  // Guarded by mutex_; the thread alone writes connection_.
  int connection_ = -1;
  Handler handler_;
  std::vector<Command> commands_;
  std::thread thread_;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SERVER_SHARED_LIMITS_FAKE_STORE_H_
