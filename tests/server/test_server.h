// A whole server on a loopback port: the real HTTP side and the real engine over a ScriptedExecutor and a
// ByteTokenizer. RawClient is the other end of one of its connections, byte by byte.
#ifndef HYDRANT_TESTS_SERVER_TEST_SERVER_H_
#define HYDRANT_TESTS_SERVER_TEST_SERVER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "server/engine/engine.h"
#include "server/frontend/frontend.h"
#include "server/tenants/tenant_registry.h"
#include "tests/support/byte_tokenizer.h"
#include "tests/support/scripted_executor.h"

namespace hydrant {

// Asks `condition` again and again until it holds; false when it does not within `seconds`.
bool Eventually(const std::function<bool()>& condition, double seconds = 30);

// A socket of a loopback port that listens already, as a service manager hands it over.
class ListeningSocket {
 public:
  ListeningSocket();
  int fd() const { return fd_; }
  uint16_t port() const { return port_; }

 private:
  int fd_ = -1;  // whoever is given it closes it
  uint16_t port_ = 0;
};

class RawClient {
 public:
  explicit RawClient(uint16_t port, int receive_buffer_bytes = 0);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return fd_ >= 0; }
  // What the system takes in for a reader that does not read.
  void SetReceiveBuffer(int bytes);
  // False when the server has closed.
  bool Send(std::string_view bytes);
  // Ends the direction to the server: nothing more is sent, and what comes is read.
  void EndSending();
  // Ends both directions: whoever sends or reads on another thread finds the connection closed.
  void Shutdown();
  // Closes; `reset` drops the connection with RST.
  void Close(bool reset = false);
  // Reads until `marker` has been seen, the server closes, or the time is over. Returns all bytes since the last call.
  std::string ReadUntil(std::string_view marker, double seconds = 10);
  // Reads until the server closes. closed() tells whether it did.
  std::string ReadAll(double seconds = 10);
  bool closed() const { return closed_; }

  struct Response {
    int status = 0;  // 0: none came
    std::string head;
    std::string body;
    // The value of a field (lower-case name), or "".
    std::string Field(std::string_view name) const;
  };
  // One whole response with a Content-Length or chunks (decoded).
  Response ReadResponse(double seconds = 10);
  Response Ask(std::string_view request, double seconds = 10) {
    Send(request);
    return ReadResponse(seconds);
  }

 private:
  bool ReadSome(double deadline);

  int fd_ = -1;
  bool closed_ = false;
  std::string buffer_;
};

// "POST /v1/completions" with a JSON body; `fields` are further header lines, each ending in CRLF.
std::string CompletionPost(std::string_view json, std::string_view fields = "");
std::string Get(std::string_view path, std::string_view fields = "");

// What the server believes of its model.
inline constexpr int32_t kTestLayers = 2;
inline constexpr int32_t kTestKvHeads = 3;
static_assert(kTestLayers * kTestKvHeads == kScriptedPairs);

// a and b, whose keys are key-a and key-b.
TenantsConfig TwoTenants();

struct TestServerOptions {
  FrontendOptions http;
  int32_t blocks = 1024;
  int32_t sequences_max = 8;
  int32_t context = 4096;
  int64_t parked_blocks = 1024;
  int32_t spare_score_blocks = 0;
  SessionStore::Options sessions;                        // clock and on_forget are the server's own unless set
  std::function<int32_t(const StepRow&, int32_t)> next;  // null: the alphabet
  TenantsConfig tenants = SingleTenant("");
  std::string tenants_path;  // not empty: the tenants are in this file
};

// With a template that shows each message behind its role.
TestServerOptions WithChats();

// Notes that it was told to stop, and has no memory where a test says so.
class TestedEngine : public Engine {
 public:
  using Engine::Engine;
  void Stop() override {
    stopping = true;
    Engine::Stop();
  }
  void ReadKv(uint64_t session, bool evicts, std::shared_ptr<KvReading> out, std::function<void()> done) override {
    if (read_fails.exchange(false)) throw std::bad_alloc();
    Engine::ReadKv(session, evicts, std::move(out), std::move(done));
  }

  std::atomic<bool> stopping = false;
  std::atomic<bool> read_fails = false;  // once
};

class TestServer {
 public:
  explicit TestServer(TestServerOptions options = {});
  ~TestServer();

  uint16_t port() const { return http_->port(); }
  ScriptedExecutor& executor() { return executor_; }
  TestedEngine& engine() { return *engine_; }
  TenantRegistry& tenants() { return *tenants_; }
  Frontend& http() { return *http_; }
  // The server has told the engine to end what runs.
  bool stopping() const { return engine_->stopping; }
  // Waits until Run has returned, and gives its exit code.
  int Join();

  RawClient::Response Ask(std::string_view request) { return RawClient(port()).Ask(request); }
  // Waits until the pool is all free and nothing runs.
  bool BecomesIdle(double seconds = 30);

 private:
  ScriptedExecutor executor_;
  std::unique_ptr<TenantRegistry> tenants_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<SessionStore> sessions_;
  std::unique_ptr<TestedEngine> engine_;
  std::unique_ptr<Frontend> http_;
  int exit_code_ = -1;
  std::thread thread_;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SERVER_TEST_SERVER_H_
