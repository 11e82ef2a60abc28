// Puts a load on a server: one io_context on the calling thread, a coroutine per conversation, a pool of kept-alive
// connections. Open loop: a conversation begins when its time has come, whatever became of the others. Closed loop:
// when one of the users is free.
//
// Life cycle: Run once. It returns when every conversation is over, or soon after Stop.
#ifndef HYDRANT_LOADGEN_RUNNER_H_
#define HYDRANT_LOADGEN_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "loadgen/client/connection.h"
#include "loadgen/client/http_request.h"
#include "loadgen/load/arrivals.h"
#include "loadgen/load/dialogue.h"
#include "loadgen/load/workload.h"
#include "loadgen/results/run_result.h"

namespace hydrant {

struct RunSpec {
  const Workload* workload = nullptr;  // outlives the run
  size_t first_conversation = 0;
  ArrivalSpec arrivals;
  // Most conversations at a time, their thinking included; 0: any number.
  int32_t concurrency_max = 0;
  RequestStyle style;
  Peer* peer = nullptr;  // outlives the run
  std::string endpoint = "/v1/completions";
  std::string key;  // of tenants without one
  HttpFields fields;
  std::string request_id_prefix;
  bool session_ids = false;  // X-Session-ID, one per conversation, other ones in every run
  double request_timeout_s = 600;
  std::function<void(const Progress&)> on_progress;  // every second; may be empty
};

class Runner {
 public:
  // REQUIRES: spec's pointers are set.
  explicit Runner(RunSpec spec);
  ~Runner();

  // Blocks until the load is over. SIGINT and SIGTERM stop it.
  RunResult Run();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_RUNNER_H_
