#include "loadgen/benchmark.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "loadgen/client/http_get.h"
#include "loadgen/report/report_html.h"
#include "loadgen/report/report_json.h"
#include "loadgen/report/report_table.h"
#include "loadgen/results/compare.h"
#include "loadgen/runner.h"

namespace hydrant {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr double kAskTimeoutS = 10;

// Every open request holds a descriptor; the soft limit is often 1,024.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

std::string Date() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  return std::string(text, std::strftime(text, sizeof(text), "%Y%m%d-%H%M%S", &local));
}

// A server that is ready, and the model to ask for.
struct Server {
  Peer peer;
  std::string model;
};

// One try to find a server and its model, lookup of the name, connection and answer within `timeout_s`. A given model is asked about only where the server is waited for: there are
// servers without a list of models.
absl::StatusOr<Server> TryReach(const Options& options, const Url& url, const std::string& model, double timeout_s) {
  const Clock::time_point deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(Seconds(timeout_s));
  const auto left_s = [&] { return std::max(0.0, Seconds(deadline - Clock::now()).count()); };
  absl::StatusOr<Peer> peer = ResolvePeer(url, !options.insecure, timeout_s);
  if (!peer.ok()) return peer.status();
  Server server{*std::move(peer), model};
  if (!model.empty() && options.ready_timeout_s == 0) {
    const absl::Status connected = TryConnection(&server.peer, left_s());
    return connected.ok() ? absl::StatusOr<Server>(std::move(server)) : connected;
  }
  const std::string& own = options.workload.tenants[0].key;
  const absl::StatusOr<std::string> first =
      FirstModel(&server.peer, own.empty() ? options.key : own, options.fields, left_s());
  if (!first.ok()) return first.status();
  if (model.empty()) server.model = *first;
  return server;
}

absl::StatusOr<Server> Reach(const Options& options, const Url& url, const std::string& model) {
  const auto deadline = Clock::now() + Seconds(options.ready_timeout_s);
  for (;;) {
    const double left_s = Seconds(deadline - Clock::now()).count();
    const double timeout_s = options.ready_timeout_s == 0 ? kAskTimeoutS : std::clamp(left_s, 1.0, kAskTimeoutS);
    absl::StatusOr<Server> server = TryReach(options, url, model, timeout_s);
    if (server.ok() || Clock::now() >= deadline) return server;
    // A name that is not known yet, a socket that nobody listens to, a proxy with nothing behind it: all of that passes.
    if (absl::IsPermissionDenied(server.status()) || absl::IsNotFound(server.status())) return server;
    timespec pause{0, 100'000'000};  // ten tries a second
    nanosleep(&pause, nullptr);
  }
}

RunSpec MakeRun(const Options& options, const Workload& workload, Server* server, const Terminal& terminal) {
  RunSpec run;
  run.workload = &workload;
  run.arrivals = options.arrivals;
  run.concurrency_max = options.concurrency_max;
  run.style = *MakeRequestStyle(options.chat(), server->model, options.sampling_json, options.extra_json);
  run.peer = &server->peer;
  run.endpoint = options.endpoint;
  run.key = options.key;
  run.fields = options.fields;
  run.request_id_prefix = options.request_id_prefix;
  run.session_ids = options.session_ids;
  run.request_timeout_s = options.request_timeout_s;
  if (options.progress) {
    run.on_progress = [&terminal, before = int64_t{0}](const Progress& progress) mutable {
      terminal.progress(ProgressLine(progress, before));
      before = progress.output_events;
    };
  }
  return run;
}

// Other conversations than the load's, so that no prefix is computed before it. False: stopped.
bool WarmUp(const Options& options, const Workload& workload, Server* server, const Terminal& terminal) {
  if (options.warmups == 0) return true;
  RunSpec run = MakeRun(options, workload, server, terminal);
  run.first_conversation = size_t{1} << 40;
  run.arrivals = ArrivalSpec{.count = static_cast<size_t>(options.warmups)};
  run.concurrency_max = std::max(1, options.concurrency_max);
  run.on_progress = nullptr;
  const RunResult result = Runner(std::move(run)).Run();
  std::string text = absl::StrCat("Warmed up with ", result.records.size(), " requests");
  const auto failed = [](const RequestRecord& record) { return !record.succeeded(); };
  const auto first = std::find_if(result.records.begin(), result.records.end(), failed);
  if (first != result.records.end()) {
    absl::StrAppend(&text, ", ", std::count_if(first, result.records.end(), failed), " failed: ", first->error_text);
  }
  terminal.note(text + ".");
  return !result.interrupted;
}

ReportHead MakeHead(const Options& options, const Server& server) {
  ReportHead head;
  head.title = options.label;
  head.date = Date();
  head.backend = options.backend;
  head.base_url = server.peer.url.ToString();
  head.model = server.model;
  const ArrivalSpec& arrivals = options.arrivals;
  head.num_prompts = arrivals.count;
  if (arrivals.has_rate()) head.request_rate = arrivals.rate;
  if (arrivals.ramp != Ramp::kNone) {
    head.ramp = arrivals.ramp == Ramp::kLinear ? "linear" : "exponential";
    head.ramp_start_rps = arrivals.ramp_start;
    head.ramp_end_rps = arrivals.ramp_end;
  }
  head.closed_loop = arrivals.closed_loop();
  head.burstiness = arrivals.burstiness;
  head.concurrency_max = options.concurrency_max;
  head.metadata = options.metadata;
  head.configuration = options.configuration;
  return head;
}

// Where --save-result writes to.
std::string ResultPath(const Options& options, const ReportHead& head) {
  std::string name = options.result_filename;
  if (name.empty()) {
    std::string model = head.model.substr(head.model.rfind('/') + 1);
    const std::string rate =
        head.request_rate.has_value()
            ? absl::StrCat(std::isinf(*head.request_rate) ? "inf" : absl::StrCat(*head.request_rate), "qps")
        : head.ramp.empty()
            ? "trace"
            : absl::StrCat("ramp-up-", head.ramp, "-", head.ramp_start_rps, "qps-", head.ramp_end_rps, "qps");
    name = absl::StrCat(options.label, "-", rate, "-", model, "-", head.date, ".json");
  }
  return (std::filesystem::path(options.result_dir) / name).string();
}

void MakeFolderOf(const std::filesystem::path& path) {
  std::error_code ignored;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
}

bool CannotWrite(const std::string& path, const Terminal& terminal) {
  terminal.note(absl::StrCat("hydrant-loadgen: cannot write ", path));
  return false;
}

// Before the load, which may take hours. Leaves no file behind that was not there, and opens none that was: a pipe would
// take that for the report.
bool TryPath(const std::string& path, const Terminal& terminal) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    const bool writable = !std::filesystem::is_directory(path, ignored) && access(path.c_str(), W_OK) == 0;
    return writable || CannotWrite(path, terminal);
  }
  MakeFolderOf(path);
  if (!std::ofstream(path)) return CannotWrite(path, terminal);
  std::filesystem::remove(path, ignored);
  return true;
}

bool WriteFile(const std::string& path, const std::string& text, const Terminal& terminal) {
  MakeFolderOf(path);
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) return CannotWrite(path, terminal);
  terminal.note(absl::StrCat("Wrote ", path));
  return true;
}

// The reports that were asked for. Returns the exit code.
int WriteReports(const Options& options, const std::vector<Measured>& measured,
                 const std::vector<CompareLine>& comparison, const Terminal& terminal) {
  bool written = true;
  bool succeeded = true;
  nlohmann::ordered_json json;
  for (const Measured& one : measured) {
    terminal.out(ReportTable(one.head, one.summary, options.summary));
    succeeded = succeeded && one.summary.all.completed > 0;
    const auto report = ReportJson(one.head, one.summary, options.summary, one.run, options.save_detailed);
    if (measured.size() == 1) {
      json = report;
    } else {
      json["servers"].push_back(report);
    }
  }
  if (!comparison.empty()) {
    json["comparison"] = CompareJson(comparison);
    terminal.out(CompareTable(measured[0].head.base_url, measured[1].head.base_url, comparison));
  }
  if (options.save_result) {
    // Names of files on the command line may be any bytes: no reason to lose a measurement.
    const std::string text = json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
    written = WriteFile(ResultPath(options, measured[0].head), text, terminal);
  }
  if (!options.html_path.empty()) {
    const std::string html = ReportHtml(measured, comparison, options.summary, options.workload.tenants);
    written = WriteFile(options.html_path, html, terminal) && written;
  }
  if (!succeeded) return kLoadExitNothing;
  return written ? kLoadExitOk : kLoadExitWrite;
}

Measured Measure(const Options& options, const Server& server, RunResult run) {
  Measured measured{MakeHead(options, server), Summarise(run, options.workload.tenants, options.summary), {}};
  measured.run = std::move(run);
  return measured;
}

int RunOne(const Options& options, const Workload& workload, Server* server, const Terminal& terminal) {
  if (!WarmUp(options, workload, server, terminal)) return kLoadExitNothing;
  RunResult run = Runner(MakeRun(options, workload, server, terminal)).Run();
  return WriteReports(options, {Measure(options, *server, std::move(run))}, {}, terminal);
}

// One round of both servers, never at the same time: they may share a machine. Which goes first changes from round to
// round (A B, B A, …), so that a machine that grows slower does not look like a server that is.
CompareRound RunRound(const Options& options, const Workload& workload, Server* first, Server* second, int32_t round,
                      const Terminal& terminal) {
  CompareRound result;
  const bool swapped = round % 2 == 1;
  for (const bool is_second : {swapped, !swapped}) {
    RunSpec run = MakeRun(options, workload, is_second ? second : first, terminal);
    run.arrivals = options.arrivals.Round(round, options.compare_rounds);
    run.first_conversation = options.arrivals.count > 0 ? options.arrivals.RoundBegin(round, options.compare_rounds)
                                                        : static_cast<size_t>(round) << 32;  // no round gets that far
    (is_second ? result.second : result.first) = Runner(std::move(run)).Run();
    if ((is_second ? result.second : result.first).interrupted) break;
  }
  return result;
}

int RunCompare(const Options& options, const Workload& workload, Server* first, Server* second,
               const Terminal& terminal) {
  if (!WarmUp(options, workload, first, terminal) || !WarmUp(options, workload, second, terminal)) {
    return kLoadExitNothing;
  }
  std::vector<CompareRound> rounds;
  for (int32_t round = 0; round < options.compare_rounds; ++round) {
    terminal.note(absl::StrCat("Round ", round + 1, " of ", options.compare_rounds));
    rounds.push_back(RunRound(options, workload, first, second, round, terminal));
    if (rounds.back().first.interrupted || rounds.back().second.interrupted) break;
  }
  std::vector<const RunResult*> firsts;
  std::vector<const RunResult*> seconds;
  for (const CompareRound& round : rounds) {
    firsts.push_back(&round.first);
    seconds.push_back(&round.second);
  }
  const std::vector<CompareLine> comparison = CompareServers(rounds, options.workload.seed);
  return WriteReports(options,
                      {Measure(options, *first, JoinRounds(firsts)), Measure(options, *second, JoinRounds(seconds))},
                      comparison, terminal);
}

}  // namespace

int RunBenchmark(const Options& options, const Terminal& terminal) {
  RaiseDescriptorLimit();
  const absl::StatusOr<Workload> workload = Workload::Make(options.workload);
  if (!workload.ok()) {
    terminal.note(absl::StrCat("hydrant-loadgen: --dataset-path: ", workload.status().message()));
    return kLoadExitUsage;
  }
  absl::StatusOr<Server> server = Reach(options, options.base_url, options.model);
  if (!server.ok()) {
    terminal.note(absl::StrCat("hydrant-loadgen: ", server.status().message()));
    return kLoadExitUnavailable;
  }
  if (options.save_result && !TryPath(ResultPath(options, MakeHead(options, *server)), terminal)) return kLoadExitWrite;
  if (!options.html_path.empty() && !TryPath(options.html_path, terminal)) return kLoadExitWrite;
  for (const auto& [name, value] : options.configuration) terminal.note(absl::StrCat("  ", name, ": ", value));
  if (!options.compare_url.has_value()) return RunOne(options, *workload, &*server, terminal);
  absl::StatusOr<Server> second = Reach(options, *options.compare_url, options.compare_model);
  if (!second.ok()) {
    terminal.note(absl::StrCat("hydrant-loadgen: ", second.status().message()));
    return kLoadExitUnavailable;
  }
  return RunCompare(options, *workload, &*server, &*second, terminal);
}

}  // namespace hydrant
