// How many server-sent events hydrant-loadgen takes per second on one core. The whole client (runner, HTTP, events, records)
// reads over loopback TCP from a thread of this process that writes one event per send, round robin over the streams, as a
// server does that hands out tokens; first at a fixed rate, then as fast as it can. Exit 1: below the goal.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "loadgen/results/summary.h"
#include "loadgen/runner.h"

namespace hydrant {
namespace {

constexpr int kStreams = 64;
constexpr int kEventsPerStream = 3000;
constexpr double kGoal = 50'000;  // events per second on one core
constexpr double kTickS = 0.001;

std::string Chunk(const std::string& data) {
  char size[16];
  (void)std::snprintf(size, sizeof(size), "%zx\r\n", data.size());
  return size + data + "\r\n";
}

void Send(int fd, const std::string& bytes) {
  if (send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size())) std::abort();
}

// Answers kStreams requests at once. `rate`: events per second over all streams, 0: no pause.
void Serve(int listener, double rate) {
  // What hydrantd sends for a token.
  const std::string event = Chunk(
      R"(data: {"id":"cmpl-6f1c0c5e9d7a4a5e","object":"text_completion","created":1763800000,"model":"SmolLM2-135M-Instruct","choices":[{"index":0,"text":" word","logprobs":null,"finish_reason":null,"stop_reason":null}],"usage":null})"
      "\n\n");
  std::vector<int> streams;
  for (int i = 0; i < kStreams; ++i) {
    const int fd = accept(listener, nullptr, nullptr);
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    std::string request;
    char piece[4096];
    while (request.empty() || request.back() != '}') {
      const ssize_t got = recv(fd, piece, sizeof(piece), 0);
      if (got <= 0) std::abort();
      request.append(piece, static_cast<size_t>(got));
    }
    streams.push_back(fd);
  }
  for (const int fd : streams) Send(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
  boost::asio::io_context io;
  boost::asio::steady_timer tick(io, std::chrono::steady_clock::now());
  double owed = 0;
  for (int sent = 0; sent < kStreams * kEventsPerStream; ++sent) {
    if (rate > 0 && owed < 1) {
      tick.expires_at(tick.expiry() + std::chrono::microseconds(static_cast<int64_t>(kTickS * 1e6)));
      tick.wait();
      owed += rate * kTickS;
    }
    owed -= 1;
    Send(streams[static_cast<size_t>(sent % kStreams)], event);
  }
  for (const int fd : streams) {
    Send(fd,
         Chunk("data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n") + "0\r\n\r\n");
    close(fd);
  }
}

// Returns events per second of the client's processor time.
double Measure(const char* what, double rate) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(listener, kStreams) != 0)
    std::abort();
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  std::thread server([=] { Serve(listener, rate); });

  WorkloadSpec workload_spec;
  workload_spec.input_tokens = Distribution(8);
  const Workload workload = *Workload::Make(workload_spec);
  Url url;
  url.host = "127.0.0.1";
  url.port = ntohs(address.sin_port);
  Peer peer = *ResolvePeer(url, true, 10);
  RunSpec spec;
  spec.workload = &workload;
  spec.arrivals.count = kStreams;
  spec.style = *MakeRequestStyle(false, "m", "{}", "");
  spec.peer = &peer;
  const RunResult run = Runner(spec).Run();
  server.join();
  close(listener);
  const Summary summary = Summarise(run, {TenantSpec()}, {});
  if (summary.all.completed != kStreams) std::abort();
  const double events = static_cast<double>(summary.all.output_tokens);
  const double per_core = events / run.cpu_s;
  std::printf("%-34s %10.0f events/s, %3.0f %% of a core: %.0f events/s on one core; loop late by at most %.1f ms\n",
              what, events / run.duration_s, 100 * summary.cpu_share, per_core, summary.max_loop_lag_ms);
  return per_core;
}

int Run() {
  const double paced = Measure("64 streams, 50,000 events/s asked", kGoal);
  const double flat_out = Measure("64 streams, as fast as they come", 0);
  const bool met = paced >= kGoal && flat_out >= kGoal;
  std::printf("goal: %.0f events/s on one core: %s\n", kGoal, met ? "ok" : "MISSED");
  return met ? 0 : 1;
}

}  // namespace
}  // namespace hydrant

int main(int argc, char** argv) {
  CLI::App app{"Events per second that the load generator takes on one core."};
  CLI11_PARSE(app, argc, argv);
  return hydrant::Run();
}
