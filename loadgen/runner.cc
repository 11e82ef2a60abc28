#include "loadgen/runner.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <csignal>
#include <ctime>
#include <exception>
#include <list>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "loadgen/client/response_reader.h"
#include "loadgen/load/load_plan.h"
#include "loadgen/results/answer_recorder.h"

namespace hydrant {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

// How often the loop checks deadlines and how late it is itself: often enough to see a stall of a few milliseconds,
// 100 wake-ups a second.
constexpr double kHeartbeatS = 0.01;
constexpr double kProgressS = 1;
// 32 years: what a rate or a trace puts further away would overflow the clock's nanoseconds.
constexpr double kFarS = 1e9;

double ThreadCpuS() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

class Runner::Impl {
 public:
  explicit Impl(RunSpec spec)
      : spec_(std::move(spec)),
        plan_(spec_.workload, &spec_.style, spec_.arrivals, spec_.first_conversation),
        slot_freed_(io_),
        signals_(io_, SIGINT, SIGTERM) {}

  RunResult Run();

 private:
  // A request whose connection may have to be closed from outside.
  struct Active {
    Connection* connection = nullptr;
    double deadline_s = 0;
    RequestError why = RequestError::kNone;  // it was closed for
  };

  double NowS() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  Clock::time_point TimeOf(double at_s) const {
    return start_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(at_s, kFarS)));
  }
  // REQUIRES: there is a limit. How many conversations there may be at a time.
  int32_t UsersNow() const {
    const ArrivalSpec& arrivals = spec_.arrivals;
    return arrivals.users_ramp_s > 0 ? arrivals.UsersAt(NowS()) : spec_.concurrency_max;
  }
  // Sleeps until then or until Stop.
  asio::awaitable<void> SleepUntil(double at_s);
  asio::awaitable<void> Dispatch();
  asio::awaitable<void> Converse(std::unique_ptr<Dialogue> dialogue, size_t conversation_idx, double scheduled_s,
                                 double due_s);
  asio::awaitable<void> Ask(Dialogue* dialogue, RequestRecord* record, std::string* answer);
  // One attempt over one connection. False: the connection had been closed while idle, and nobody has read the request.
  asio::awaitable<bool> Exchange(Connection* connection, bool reused, const std::string& request, Active* active,
                                 AnswerRecorder* recorder, bool* reusable);
  asio::awaitable<void> Heartbeat();
  void CloseOverdue(double now_s);
  void Report(double now_s);
  void Stop();
  void Finish(RequestRecord record);
  std::string Request(const Conversation& conversation, const RequestRecord& record, const std::string& body) const;

  const RunSpec spec_;
  LoadPlan plan_;
  std::string session_id_prefix_;
  asio::io_context io_{1};
  Clock::time_point start_;
  asio::steady_timer slot_freed_;  // until another user comes; cancelled whenever a conversation ends
  asio::signal_set signals_;
  std::set<asio::steady_timer*> sleeping_;
  std::list<Active> active_;
  std::vector<std::unique_ptr<Connection>> idle_;
  size_t conversations_ = 0;  // under way
  bool dispatching_ = true;
  bool stopping_ = false;
  Progress progress_;
  RunResult result_;
};

RunResult Runner::Impl::Run() {
  // What ends a coroutine with an exception is a fault of this program; it must not look like a short load.
  const auto rethrow = [](const std::exception_ptr& error) {
    if (error) std::rethrow_exception(error);
  };
  result_.start_unix_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  // A server keeps a session, and how its cache is kept, for longer than a run: the next run must not go on with it.
  const auto start_us = static_cast<uint64_t>(1e6 * result_.start_unix_s);
  session_id_prefix_ = absl::StrCat(spec_.request_id_prefix, absl::Hex(start_us), "-");
  const double cpu_before_s = ThreadCpuS();
  // Before the clock starts: a load that begins all at once is not held up by its own making.
  plan_.MakeAhead(spec_.concurrency_max > 0 ? static_cast<size_t>(spec_.concurrency_max) : LoadPlan::kAheadMax);
  start_ = Clock::now();
  signals_.async_wait([this](const error_code& error, int) {
    if (!error) Stop();
  });
  asio::co_spawn(io_, Dispatch(), rethrow);
  asio::co_spawn(io_, Heartbeat(), rethrow);
  io_.run();
  for (const RequestRecord& record : result_.records) result_.duration_s = std::max(result_.duration_s, record.end_s);
  result_.cpu_s = ThreadCpuS() - cpu_before_s;
  return std::move(result_);
}

asio::awaitable<void> Runner::Impl::SleepUntil(double at_s) {
  asio::steady_timer timer(io_, TimeOf(at_s));
  sleeping_.insert(&timer);
  error_code ignored;
  if (!stopping_) co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  sleeping_.erase(&timer);
}

asio::awaitable<void> Runner::Impl::Dispatch() {
  // The next one is made before its time has come: making it is not to be measured.
  while (std::optional<PlannedConversation> next = plan_.Next()) {
    if (next->scheduled_s > NowS()) co_await SleepUntil(next->scheduled_s);
    double due_s = next->scheduled_s;
    while (!stopping_ && spec_.concurrency_max > 0) {
      const int32_t users = UsersNow();
      if (conversations_ < static_cast<size_t>(users)) break;
      const double next_user_s = users < spec_.concurrency_max ? spec_.arrivals.UserComesS(users) : kFarS;
      slot_freed_.expires_at(TimeOf(next_user_s));
      error_code freed;
      co_await slot_freed_.async_wait(asio::redirect_error(asio::use_awaitable, freed));
      due_s = freed ? NowS() : next_user_s;
    }
    if (stopping_ || due_s > spec_.arrivals.duration_s) break;
    ++conversations_;
    asio::co_spawn(io_, Converse(std::move(next->dialogue), next->conversation_idx, next->scheduled_s, due_s),
                   [](const std::exception_ptr& error) {
                     if (error) std::rethrow_exception(error);
                   });
  }
  dispatching_ = false;
}

asio::awaitable<void> Runner::Impl::Converse(std::unique_ptr<Dialogue> dialogue, size_t conversation_idx,
                                             double scheduled_s, double due_s) {
  const Conversation& conversation = dialogue->conversation();
  for (size_t turn = 0; turn < conversation.turns.size(); ++turn) {
    if (turn > 0) {
      scheduled_s = due_s = NowS() + conversation.turns[turn].think_s;
      if (scheduled_s > spec_.arrivals.duration_s) break;
      if (conversation.turns[turn].think_s > 0) co_await SleepUntil(scheduled_s);
    }
    if (stopping_) break;
    RequestRecord record;
    record.conversation_idx = conversation_idx;
    record.turn = static_cast<int32_t>(turn);
    record.tenant_idx = conversation.tenant_idx;
    record.scheduled_s = scheduled_s;
    record.due_s = due_s;
    std::string answer;
    co_await Ask(dialogue.get(), &record, turn + 1 < conversation.turns.size() ? &answer : nullptr);
    const bool succeeded = record.succeeded();
    Finish(std::move(record));
    if (!succeeded) break;  // a chat does not go on without its answer
    dialogue->AddAnswer(answer);
  }
  --conversations_;
  slot_freed_.cancel();
}

std::string Runner::Impl::Request(const Conversation& conversation, const RequestRecord& record,
                                  const std::string& body) const {
  HttpFields fields = spec_.fields;
  const std::string number = absl::StrCat(record.conversation_idx);
  fields.emplace_back("X-Request-Id", absl::StrCat(spec_.request_id_prefix, number, "-", record.turn));
  if (spec_.session_ids) fields.emplace_back("X-Session-ID", absl::StrCat(session_id_prefix_, number));
  const std::string& own = spec_.workload->spec().tenants[conversation.tenant_idx].key;
  return HttpRequest(spec_.peer->url, spec_.endpoint, own.empty() ? spec_.key : own, fields, body);
}

asio::awaitable<void> Runner::Impl::Ask(Dialogue* dialogue, RequestRecord* record, std::string* answer) {
  const std::string request = Request(dialogue->conversation(), *record, dialogue->NextBody());
  record->prompt_tokens = dialogue->prompt_tokens();
  AnswerRecorder recorder(record, answer);
  record->sent_s = NowS();
  ++progress_.sent;
  progress_.max_lag_s = std::max(progress_.max_lag_s, record->lag_s());
  Active& active = active_.emplace_back();
  const auto where = std::prev(active_.end());
  active.deadline_s = record->sent_s + spec_.request_timeout_s;
  // A second time it is a connection of its own, so there is no third.
  for (bool answered = false, again = false; !answered; again = true) {
    const bool reused = !again && !idle_.empty();
    std::unique_ptr<Connection> connection;
    if (reused) {
      connection = std::move(idle_.back());
      idle_.pop_back();
    } else {
      connection = std::make_unique<Connection>(io_, spec_.peer);
    }
    active.connection = connection.get();
    bool reusable = false;
    answered = co_await Exchange(connection.get(), reused, request, &active, &recorder, &reusable);
    active.connection = nullptr;
    if (reusable && !stopping_) idle_.push_back(std::move(connection));
  }
  active_.erase(where);
}

asio::awaitable<bool> Runner::Impl::Exchange(Connection* connection, bool reused, const std::string& request,
                                             Active* active, AnswerRecorder* recorder, bool* reusable) {
  const auto failed = [&](RequestError error, std::string_view text) {
    if (active->why == RequestError::kTimeout) {
      recorder->Fail(RequestError::kTimeout, absl::StrCat("not over after ", spec_.request_timeout_s, " s"), NowS());
    } else if (active->why == RequestError::kCancelled) {
      recorder->Fail(RequestError::kCancelled, "the run was stopped", NowS());
    } else {
      recorder->Fail(error, text, NowS());
    }
    connection->Close();
    return true;
  };
  error_code error;
  if (!reused) error = co_await connection->Open();
  if (error) co_return failed(RequestError::kConnect, error.message());
  double now_s = 0;
  ResponseReader reader([&](std::string_view bytes) {
    const int64_t events = recorder->output_events();
    recorder->OnBody(bytes, now_s);
    progress_.output_events += recorder->output_events() - events;
  });
  reader.set_on_status([&](int status) { recorder->OnStatus(status); });
  error = co_await connection->Write(request);
  while (!error && !reader.done() && reader.error().empty()) {
    error = co_await connection->Read();
    now_s = NowS();
    connection->Take(reader.Feed(connection->unread()));
  }
  if (error && !reader.started() && reused && active->why == RequestError::kNone && connection->Unread()) {
    connection->Close();
    co_return false;
  }
  if (error == asio::error::eof) reader.FeedEnd();
  if (!reader.done()) {
    const std::string text = reader.error().empty() ? error.message() : reader.error();
    co_return failed(RequestError::kProtocol, absl::StrCat("the answer broke off: ", text));
  }
  recorder->OnEnd(now_s);
  *reusable = !error && reader.keep_alive() && connection->unread().empty();
  co_return true;
}

void Runner::Impl::Finish(RequestRecord record) {
  if (record.succeeded()) {
    ++progress_.completed;
  } else if (record.error != RequestError::kCancelled) {
    ++progress_.failed;
  }
  result_.records.push_back(std::move(record));
}

asio::awaitable<void> Runner::Impl::Heartbeat() {
  double due_s = kHeartbeatS;
  double report_s = kProgressS;
  while (dispatching_ || conversations_ > 0) {
    co_await SleepUntil(due_s);
    const double now_s = NowS();
    if (!stopping_) result_.max_loop_lag_s = std::max(result_.max_loop_lag_s, now_s - due_s);
    CloseOverdue(now_s);
    if (now_s >= report_s) {
      Report(now_s);
      report_s = std::max(report_s + kProgressS, now_s);
    }
    due_s = now_s + kHeartbeatS;
    if (stopping_) break;
  }
  signals_.cancel();
  idle_.clear();
}

void Runner::Impl::CloseOverdue(double now_s) {
  for (Active& active : active_) {
    if (active.connection == nullptr || active.why != RequestError::kNone || active.deadline_s > now_s) continue;
    active.why = RequestError::kTimeout;
    active.connection->Close();
  }
}

void Runner::Impl::Report(double now_s) {
  progress_.elapsed_s = now_s;
  progress_.running = active_.size();
  if (spec_.on_progress) spec_.on_progress(progress_);
}

void Runner::Impl::Stop() {
  stopping_ = true;
  result_.interrupted = true;
  for (Active& active : active_) {
    if (active.why == RequestError::kNone) active.why = RequestError::kCancelled;
    if (active.connection != nullptr) active.connection->Close();
  }
  for (asio::steady_timer* timer : sleeping_) timer->cancel();
  slot_freed_.cancel();
}

Runner::Runner(RunSpec spec) : impl_(std::make_unique<Impl>(std::move(spec))) {}
Runner::~Runner() = default;
RunResult Runner::Run() { return impl_->Run(); }

}  // namespace hydrant
