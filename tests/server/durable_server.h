// A whole server whose sessions outlive it, in a directory of the test's.
#ifndef HYDRANT_TESTS_SERVER_DURABLE_SERVER_H_
#define HYDRANT_TESTS_SERVER_DURABLE_SERVER_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <utility>

#include "server/process/clock.h"
#include "server/sessions/journal/session_journal.h"
#include "tests/server/test_server.h"

namespace hydrant {

struct DurableServer {
  explicit DurableServer(const std::string& directory, TestServerOptions server_options = {},
                         SessionJournal::Options options = {}) {
    options.any_file_system = true;  // tests may run in a container's own layer
    options.clock = MonotonicUs;
    options.wall_clock = [] { return static_cast<int64_t>(std::time(nullptr)); };
    auto opened = SessionJournal::Open(directory, std::move(options));
    EXPECT_TRUE(opened.ok()) << opened.status();
    journal = *std::move(opened);
    server_options.sessions.journal = journal.get();
    server_options.sessions.tenants = 1;
    server_options.sessions.tenant_name = [](int32_t) { return "default"; };
    server = std::make_unique<TestServer>(std::move(server_options));
  }
  ~DurableServer() {
    server->BecomesIdle();
    journal->Stop();
  }

  std::unique_ptr<SessionJournal> journal;
  std::unique_ptr<TestServer> server;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SERVER_DURABLE_SERVER_H_
