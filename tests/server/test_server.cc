#include "tests/server/test_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "server/generation/chat_setup.h"
#include "server/kv/kv_resolution.h"
#include "server/process/clock.h"

namespace hydrant {
namespace {

double Now() { return static_cast<double>(MonotonicUs()) * 1e-6; }

}  // namespace

bool Eventually(const std::function<bool()>& condition, double seconds) {
  const double deadline = Now() + seconds;
  while (!condition()) {
    if (Now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

ListeningSocket::ListeningSocket() {
  fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), bytes), 0);
  EXPECT_EQ(listen(fd_, 16), 0);
  EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  port_ = ntohs(address.sin_port);
}

RawClient::RawClient(uint16_t port, int receive_buffer_bytes) {
  fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return;
  if (receive_buffer_bytes > 0) SetReceiveBuffer(receive_buffer_bytes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) Close();
}

RawClient::~RawClient() { Close(); }

void RawClient::SetReceiveBuffer(int bytes) { setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)); }

bool RawClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

void RawClient::EndSending() { shutdown(fd_, SHUT_WR); }

void RawClient::Shutdown() { shutdown(fd_, SHUT_RDWR); }

void RawClient::Close(bool reset) {
  if (fd_ < 0) return;
  if (reset) {
    const linger hard = {1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  }
  close(fd_);
  fd_ = -1;
}

bool RawClient::ReadSome(double deadline) {
  const double left = deadline - Now();
  if (left <= 0 || closed_ || fd_ < 0) return false;
  pollfd wait = {fd_, POLLIN, 0};
  if (poll(&wait, 1, static_cast<int>(left * 1000) + 1) <= 0) return false;
  char bytes[16384];
  const ssize_t got = recv(fd_, bytes, sizeof(bytes), 0);
  if (got <= 0) {
    closed_ = true;
    return false;
  }
  buffer_.append(bytes, static_cast<size_t>(got));
  return true;
}

std::string RawClient::ReadUntil(std::string_view marker, double seconds) {
  const double deadline = Now() + seconds;
  while (marker.empty() || buffer_.find(marker) == std::string::npos) {
    if (!ReadSome(deadline)) break;
  }
  return std::exchange(buffer_, {});
}

std::string RawClient::ReadAll(double seconds) { return ReadUntil("", seconds); }

std::string RawClient::Response::Field(std::string_view name) const {
  const std::string line = "\r\n" + std::string(name) + ": ";
  const size_t at = head.find(line);
  if (at == std::string::npos) return "";
  const size_t begin = at + line.size();
  return head.substr(begin, head.find("\r\n", begin) - begin);
}

RawClient::Response RawClient::ReadResponse(double seconds) {
  const double deadline = Now() + seconds;
  Response response;
  size_t end;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!ReadSome(deadline)) return response;
  }
  response.head = buffer_.substr(0, end + 2);
  buffer_.erase(0, end + 4);
  response.status = std::atoi(response.head.c_str() + sizeof("HTTP/1.1"));
  if (response.Field("transfer-encoding") == "chunked") {
    while (true) {
      size_t eol;
      while ((eol = buffer_.find("\r\n")) == std::string::npos) {
        if (!ReadSome(deadline)) return response;
      }
      const size_t size = std::strtoul(buffer_.c_str(), nullptr, 16);
      while (buffer_.size() < eol + 2 + size + 2) {
        if (!ReadSome(deadline)) return response;
      }
      response.body += buffer_.substr(eol + 2, size);
      buffer_.erase(0, eol + 2 + size + 2);
      if (size == 0) return response;
    }
  }
  const auto length = static_cast<size_t>(std::atol(response.Field("content-length").c_str()));
  while (buffer_.size() < length) {
    if (!ReadSome(deadline)) break;
  }
  response.body = buffer_.substr(0, length);
  buffer_.erase(0, length);
  return response;
}

std::string CompletionPost(std::string_view json, std::string_view fields) {
  return "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
         std::string(fields) + "Content-Length: " + std::to_string(json.size()) + "\r\n\r\n" + std::string(json);
}

TenantsConfig TwoTenants() {
  TenantsConfig tenants;
  for (const char* name : {"a", "b"}) {
    TenantConfig& tenant = tenants.tenants.emplace_back();
    tenant.name = name;
    tenant.keys = {DigestOfKey("key-" + std::string(name))};
  }
  return tenants;
}

std::string Get(std::string_view path, std::string_view fields) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(fields) + "\r\n";
}

TestServerOptions WithChats() {
  TestServerOptions options;
  std::vector<std::string> warnings;
  options.http.context.chat = MakeChatSetup({"{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}", ""},
                                            "", "", "auto", &warnings);
  return options;
}

TestServer::TestServer(TestServerOptions options) {
  if (options.next) executor_.next = options.next;
  FrontendOptions http = std::move(options.http);
  Limits& limits = http.limits;
  limits.sequences_max = options.sequences_max;
  limits.blocks = options.blocks;
  limits.context_max = options.context;
  ServingContext& context = http.context;
  context.request.model_names = {"test-model"};
  context.request.vocab_size = ByteTokenizer::kVocab;
  context.request.context = options.context;
  context.kv = {4, 2, options.context};
  context.tokenizer = std::make_shared<ByteTokenizer>();
  context.shapes = std::make_shared<ShapeCache>(std::make_shared<const ShapeVocabulary>(
      context.tokenizer, context.request.vocab_size, std::vector<int32_t>{ByteTokenizer::kEos}));
  context.request.constraints = true;
  context.limits = limits;
  http.kv_shape = {kTestLayers, kTestKvHeads};
  http.model_root = "test-model.gguf";
  http.version = "1.2.3";

  const TenantFacts facts = {options.blocks, options.sequences_max, options.context, context.request.kv};
  if (options.tenants_path.empty()) {
    tenants_ = std::make_unique<TenantRegistry>(options.tenants, facts);
  } else {
    auto tenants = TenantRegistry::FromFile(options.tenants_path, facts);
    EXPECT_TRUE(tenants.ok()) << tenants.status();
    tenants_ = std::move(*tenants);
  }
  EngineCoreOptions core_options;
  core_options.scheduler.tenants = tenants_->options();
  core_options.scheduler.blocks = options.blocks;
  core_options.scheduler.sequences_max = options.sequences_max;
  core_options.scheduler.waiting_max = options.sequences_max + limits.waiting_sequences_max;
  core_options.scheduler.tokens_max = 512;
  core_options.scheduler.eos_ids = {ByteTokenizer::kEos};
  core_options.scheduler.parked_blocks_max = options.parked_blocks;
  core_options.scheduler.spare_score_blocks = options.spare_score_blocks;
  core_options.vocab = ByteTokenizer::kVocab;
  core_options.context = options.context;
  auto core = EngineCore::Create(core_options, executor_, MonotonicUs);
  EXPECT_TRUE(core.ok()) << core.status();

  MetricsOptions metrics_options;
  metrics_options.model_name = "test-model";
  metrics_options.context = options.context;
  metrics_options.blocks = options.blocks;
  metrics_options.cache_dtype = "float32";
  metrics_options.policy_names = KvPolicyLabels();
  metrics_options.tenant_names = tenants_->names();
  metrics_ = std::make_unique<Metrics>(metrics_options);
  SessionStore::Options session_options = options.sessions;
  if (!session_options.clock) session_options.clock = MonotonicUs;
  session_options.on_forget = [this](uint64_t session) { engine_->DropSession(session); };
  session_options.on_settle = [this](const TurnId& turn, bool keep) { engine_->SettleTurn(turn, keep); };
  sessions_ = std::make_unique<SessionStore>(std::move(session_options));
  context.sessions = sessions_.get();
  http_ = std::make_unique<Frontend>(std::move(http), *metrics_, *tenants_);
  EngineHooks hooks;
  hooks.fan_out = http_->fan_out();
  hooks.on_death = [this](const std::string&) { http_->Fail(70); };
  hooks.on_parked = [this](std::span<const TurnId> dropped, std::span<const ParkedTurn> parked) {
    sessions_->OnParked(dropped, parked);
  };
  engine_ = std::make_unique<TestedEngine>(std::move(*core), http_->limits(), std::move(hooks));
  tenants_->SetHooks({[this](const std::string& name) { metrics_->AddTenant(name); },
                      [this](const std::vector<TenantOptions>& set) { engine_->SetTenants(set); }});
  engine_->Start();
  const absl::Status opened = http_->Open(*engine_);
  EXPECT_TRUE(opened.ok()) << opened;
  thread_ = std::thread([this] { exit_code_ = http_->Run(); });
}

TestServer::~TestServer() {
  executor_.Release();
  http_->Fail(0);
  Join();
  engine_->Stop();
}

int TestServer::Join() {
  if (thread_.joinable()) thread_.join();
  return exit_code_;
}

bool TestServer::BecomesIdle(double seconds) {
  return Eventually(
      [this] {
        const EngineCounters counters = engine_->counters();
        return counters.running == 0 && counters.waiting == 0 && counters.blocks_used == 0 &&
               engine_->backlog().sequences == 0;
      },
      seconds);
}

}  // namespace hydrant
