// A server for tests on a loopback port: a handler says which bytes answer a request. A thread per connection; blocking.
#ifndef HYDRANT_TESTS_LOADGEN_REPLAY_SERVER_H_
#define HYDRANT_TESTS_LOADGEN_REPLAY_SERVER_H_

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "loadgen/client/connection.h"

namespace hydrant {

struct Reply {
  std::vector<std::string> pieces;  // one write each
  bool close = false;               // the connection, after them
  bool hang = false;                // then wait until the client closes it
};

// 200 with an event stream, one chunk and one write per event; every event is `data: …`.
Reply StreamReply(const std::vector<std::string>& events);
// `tokens` events with a text, usage, [DONE].
Reply TokensReply(int tokens, bool chat = false);
// With a length.
Reply PlainReply(int status, const std::string& body);

class ReplayServer {
 public:
  using Handler = std::function<Reply(const std::string& head, const std::string& body)>;

  // `handler` is called from several threads.
  explicit ReplayServer(Handler handler);
  ~ReplayServer();

  std::string url() const;
  Peer peer() const;
  int connections() const { return connections_; }

 private:
  void Accept();
  void Serve(int fd);

  const Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<int> connections_{0};
  std::mutex mutex_;
  std::vector<int> open_;             // guarded by mutex_
  std::vector<std::thread> threads_;  // guarded by mutex_
  std::thread accepting_;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_LOADGEN_REPLAY_SERVER_H_
