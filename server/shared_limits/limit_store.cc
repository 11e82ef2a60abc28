#include "server/shared_limits/limit_store.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <iterator>
#include <limits>
#include <new>
#include <optional>
#include <system_error>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "server/process/clock.h"
#include "server/process/log.h"
#include "server/process/random_id.h"
#include "server/process/secret_file.h"
#include "server/process/stuck_guard.h"
#include "server/shared_limits/limit_scripts.h"

namespace hydrant {
namespace {

// Beyond it an ask fails at once. A store that answers in 0.1 ms has far fewer under way, and one that does not is away soon.
constexpr int64_t kAsksMax = 4096;
// Names of places in one command: some 10 KiB, and 0.1 ms of the store's time.
constexpr size_t kRenewedMax = 256;
constexpr int64_t kRenewUs = LimitStore::kPlaceTtlMs * 1000 / 3;
// A connection may take longer than an answer: names are looked up, and a store that starts loads its data.
constexpr int64_t kConnectUs = 500'000;
constexpr int64_t kGoodbyeUs = 500'000;  // the process waits for it
constexpr int64_t kTellUs = 10'000'000;  // between two lines in the log
constexpr int64_t kPasswordBytesMax = 4096;
constexpr int64_t kNumberMax = int64_t{1} << 53;  // what the scripts count in
constexpr char kProbeKey[] = "hydrant:probe";

std::string PlacesKey(const LimitDemand& demand) {
  return absl::StrCat("hydrant:{", demand.tenant, "}:", demand.kind == LimitKind::kRequests ? "open" : "sequences");
}

// The braces keep the keys of a tenant together where a proxy spreads keys over several stores.
std::vector<std::string> KeysOf(const LimitDemand& demand) {
  return {absl::StrCat("hydrant:{", demand.tenant, "}:", demand.kind == LimitKind::kRequests ? "rpm" : "tpm"),
          PlacesKey(demand)};
}

const std::string& TextOf(size_t script) {
  static const std::string texts[] = {absl::StrCat(kScriptHead, kTakeBody), absl::StrCat(kScriptHead, kGiveBody),
                                      kRenewScript};
  return texts[script];
}

bool IsDigest(std::string_view text) {
  return text.size() == 40 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// How many `text` begins with.
size_t CapitalsOf(std::string_view text) {
  return std::min(text.size(), text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ"));
}

absl::Status Late() { return absl::UnavailableError("the store does not answer in time"); }

absl::Status ErrorOf(const std::string& command, const StoreReply& reply) {
  if (reply.kind == StoreReply::Kind::kError) return absl::UnavailableError(absl::StrCat(command, ": ", reply.text));
  return absl::UnavailableError(absl::StrCat(command, ": not the answer of a Redis"));
}

}  // namespace

LimitStore::LimitStore(Options options)
    : options_(std::move(options)),
      instance_(RandomId()),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      stop_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_fd_ < 0 || stop_fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  if (options_.on_away) options_.on_away(true);
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "limits");
    Run();
  });
}

LimitStore::~LimitStore() {
  Stop();
  while (back_ != nullptr) back_ = std::move(back_->next_back_);  // one by one: a long list has no depth
  close(wake_fd_);
  close(stop_fd_);
}

void LimitStore::Stop(int exit_code) {
  if (!thread_.joinable()) return;
  std::optional<StuckGuard> guard;
  try {
    guard.emplace("the store of shared limits", kStopS, exit_code);
  } catch (const std::exception&) {
    // Without a thread that watches it it is waited for.
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  Signal(stop_fd_);
  Signal(wake_fd_);
  thread_.join();
  // What came when the thread had looked for the last time.
  std::vector<std::shared_ptr<LimitAsk>> left;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    left.swap(queue_);
  }
  for (const auto& ask : left) EndAsk(*ask, LimitVerdict::kFailed, AskEnd::kAway);
}

void LimitStore::Signal(int fd) noexcept {
  const uint64_t one = 1;
  // It fails only when there are 2^64 - 1 signals that nobody has read.
  const ssize_t written = write(fd, &one, sizeof one);
  std::ignore = written;
}

std::shared_ptr<LimitAsk> LimitStore::Ask(LimitDemand demand, std::function<void()> wake) {
  const bool away = away_.load(std::memory_order_relaxed);
  if (away || under_way_.load(std::memory_order_relaxed) >= kAsksMax) {
    if (options_.on_end) options_.on_end(away ? AskEnd::kAway : AskEnd::kError, 0);
    return nullptr;
  }
  const int64_t now_us = MonotonicUs();
  auto ask = std::make_shared<LimitAsk>(std::move(demand), now_us + options_.patience_us);
  ask->wake_ = std::move(wake);
  ask->asked_us_ = now_us;
  bool stopping = false, idle = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping = stopping_;
    idle = queue_.empty();
    if (!stopping) queue_.push_back(ask);
  }
  if (stopping) {
    if (options_.on_end) options_.on_end(AskEnd::kAway, 0);
    return nullptr;
  }
  under_way_.fetch_add(1, std::memory_order_relaxed);
  if (idle) Signal(wake_fd_);
  return ask;
}

void LimitStore::GiveBack(const std::shared_ptr<LimitAsk>& ask, int64_t unused) {
  if (unused == 0 && ask->demand().places == 0) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ask->back_ = unused;
    ask->next_back_ = std::move(back_);
    back_ = ask;
  }
  Signal(wake_fd_);
}

void LimitStore::Run() {
  while (true) {
    try {
      if (connection_ != nullptr) {
        if (absl::Status status = Turn(); !status.ok()) Disconnect(status);
      } else if (MonotonicUs() >= breaker_.retry_us()) {
        if (absl::Status status = Connect(); !status.ok()) Disconnect(status);
      } else {
        (void)Wait(breaker_.retry_us());
      }
      if (!TakeQueued()) break;
    } catch (const std::exception&) {
      Disconnect(no_memory_);
    }
  }
  SayGoodbye();
}

absl::Status LimitStore::Turn() {
  int64_t until_us = held_.empty() ? MonotonicUs() + kRenewUs : renew_us_;
  until_us = std::min(until_us, SilentUs());
  if (!waiting_.empty()) until_us = std::min(until_us, waiting_.front()->due_us());
  if (Wait(until_us)) {
    if (absl::Status status = connection_->Read(); !status.ok()) return status;
    if (absl::Status status = TakeAnswers(); !status.ok()) return status;
  }
  (void)TakeQueued();  // the loop asks again whether it is to stop
  const int64_t now_us = MonotonicUs();
  if (absl::Status status = ExpireAsks(now_us); !status.ok()) return status;
  RenewPlaces(now_us);
  return connection_->Write();
}

bool LimitStore::Wait(int64_t until_us) {
  const int64_t left_us = std::max<int64_t>(0, until_us - MonotonicUs());
  pollfd watched[] = {{wake_fd_, POLLIN, 0}, {-1, POLLIN, 0}};
  if (connection_ != nullptr) {
    watched[1].fd = connection_->fd();
    if (connection_->wants_write()) watched[1].events |= POLLOUT;
  }
  (void)poll(watched, 2, static_cast<int>(std::min<int64_t>((left_us + 999) / 1000, 60'000)));
  uint64_t signals = 0;
  const ssize_t got = read(wake_fd_, &signals, sizeof signals);
  std::ignore = got;
  return (watched[1].revents & ~POLLOUT) != 0;
}

bool LimitStore::TakeQueued() {
  std::vector<std::shared_ptr<LimitAsk>> asks;
  std::shared_ptr<LimitAsk> back;
  bool stopping = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    asks.swap(queue_);
    back.swap(back_);
    stopping = stopping_;
  }
  // Each of them is done with, whatever memory there is; without any the connection goes, and what it had under way.
  bool out_of_memory = false;
  // What comes back is there for those who ask at the same time.
  while (back != nullptr) {
    std::shared_ptr<LimitAsk> next = std::move(back->next_back_);
    try {
      TakeBack(back);
    } catch (const std::bad_alloc&) {
      out_of_memory = true;
    }
    back = std::move(next);
  }
  for (const auto& ask : asks) {
    try {
      Begin(ask);
    } catch (const std::bad_alloc&) {
      out_of_memory = true;
      ask->stage_ = LimitAsk::Stage::kOver;
      EndAsk(*ask, LimitVerdict::kFailed, AskEnd::kError);
    }
  }
  if (out_of_memory) throw std::bad_alloc();
  return !stopping;
}

void LimitStore::Begin(const std::shared_ptr<LimitAsk>& ask) {
  if (connection_ == nullptr) {
    ask->stage_ = LimitAsk::Stage::kOver;
    EndAsk(*ask, LimitVerdict::kFailed, AskEnd::kAway);
    return;
  }
  ask->name_ = absl::StrCat(instance_, "-", ++asks_, "-");
  waiting_.push_back(ask);
  Send(Script::kTake, ask, /*whole=*/false);
  ask->stage_ = LimitAsk::Stage::kSent;
}

void LimitStore::TakeBack(const std::shared_ptr<LimitAsk>& ask) {
  ask->returned_ = true;  // if it is still to be answered, then
  if (ask->stage_ != LimitAsk::Stage::kHeld) return;
  ask->stage_ = LimitAsk::Stage::kOver;
  held_.erase(ask.get());
  if (connection_ != nullptr) Send(Script::kGive, ask, /*whole=*/false);
}

void LimitStore::Send(Script script, const std::shared_ptr<LimitAsk>& ask, bool whole) {
  const LimitDemand& demand = ask->demand();
  std::vector<std::string> arguments = {absl::StrCat(demand.per_minute)};
  if (script == Script::kTake) {
    for (const int64_t number : {demand.amount, demand.places_max, demand.places}) {
      arguments.push_back(absl::StrCat(number));
    }
    arguments.push_back(ask->name_);
    arguments.push_back(absl::StrCat(kPlaceTtlMs));
  } else {
    // What was taken of another connection's store may be gone with it, so that giving it back would be a gift.
    const int64_t unused = ask->connection_ == connections_ ? ask->back_ : 0;
    if (unused == 0 && demand.places == 0) return;
    arguments.push_back(absl::StrCat(unused));
    arguments.push_back(absl::StrCat(demand.places));
    arguments.push_back(ask->name_);
  }
  SendCommand({script, ask, whole}, KeysOf(demand), arguments);
}

void LimitStore::SendCommand(Sent sent, std::vector<std::string> keys, const std::vector<std::string>& arguments) {
  const auto script = static_cast<size_t>(sent.script);
  const std::string key_count = absl::StrCat(keys.size());
  std::vector<std::string_view> command = {sent.whole ? "EVAL" : "EVALSHA",
                                           sent.whole ? std::string_view(TextOf(script)) : digests_[script], key_count};
  command.insert(command.end(), keys.begin(), keys.end());
  command.insert(command.end(), arguments.begin(), arguments.end());
  sent.at_us = MonotonicUs();
  sent_.push_back(std::move(sent));
  connection_->Append(command);
}

absl::Status LimitStore::TakeAnswers() {
  while (true) {
    absl::StatusOr<std::optional<StoreReply>> reply = connection_->Next();
    if (!reply.ok()) return reply.status();
    if (!reply->has_value()) return absl::OkStatus();
    if (sent_.empty()) return absl::UnavailableError("the store answers what nobody asked");
    const Sent sent = std::move(sent_.front());
    sent_.pop_front();
    if (absl::Status status = OnReply(sent, **reply); !status.ok()) return status;
  }
}

absl::Status LimitStore::OnReply(const Sent& sent, const StoreReply& reply) {
  if (reply.kind == StoreReply::Kind::kError && reply.text.starts_with("NOSCRIPT") && !sent.whole) {
    if (sent.ask != nullptr) {
      Send(sent.script, sent.ask, /*whole=*/true);
    } else {
      renew_whole_ = true;
      renew_us_ = 0;
    }
    return absl::OkStatus();
  }
  if (sent.script == Script::kTake) return OnTaken(sent.ask, reply);
  if (reply.kind == StoreReply::Kind::kError) return OnError(sent.at_us, reply);
  const bool done = reply.kind == StoreReply::Kind::kIntegers && reply.integers == std::vector<int64_t>{1};
  return done ? absl::OkStatus() : absl::UnavailableError("what the store answers is not what the script does");
}

absl::Status LimitStore::OnTaken(const std::shared_ptr<LimitAsk>& ask, const StoreReply& reply) {
  if (reply.kind == StoreReply::Kind::kError) {
    ask->stage_ = LimitAsk::Stage::kOver;
    // Counted before its owner can ask again.
    absl::Status status = OnError(ask->asked_us_, reply);
    EndAsk(*ask, LimitVerdict::kFailed, AskEnd::kError);
    return status;
  }
  const LimitDemand& demand = ask->demand();
  const auto in_range = [](int64_t value) { return value >= 0 && value <= kNumberMax; };
  const std::vector<int64_t>& said = reply.integers;
  // No script says that there are too many of what was not asked for.
  const bool fits = said.size() == 3 && (said[0] == 1 || (said[0] == 2 && demand.per_minute > 0) ||
                                         (said[0] == 3 && demand.places_max > 0));
  if (!fits || !in_range(said[1]) || !in_range(said[2])) {
    return absl::UnavailableError("what the store answers is not what the script does");
  }
  // Its owner may have given up before this thread found it due.
  absl::Status in_time;
  if (!ask->counted_) {
    if (const int64_t now_us = MonotonicUs(); now_us < ask->due_us()) {
      breaker_.OnAnswer();
    } else if (breaker_.OnFailure(ask->asked_us_, now_us)) {
      in_time = Late();
    }
  }
  ask->left_ = said[1];
  ask->wait_us_ = said[2];
  if (said[0] != 1) {
    ask->stage_ = LimitAsk::Stage::kOver;
    EndAsk(*ask, said[0] == 2 ? LimitVerdict::kNoRate : LimitVerdict::kNoPlaces, AskEnd::kRefused);
    return in_time;
  }
  ask->stage_ = LimitAsk::Stage::kHeld;
  ask->connection_ = connections_;
  if (demand.places > 0) {
    if (held_.empty()) renew_us_ = MonotonicUs() + kRenewUs;
    held_.emplace(ask.get(), ask);
  }
  EndAsk(*ask, LimitVerdict::kGranted, AskEnd::kGranted);
  if (ask->returned_) TakeBack(ask);  // it came too late, and nobody waits for it
  return in_time;
}

absl::Status LimitStore::OnError(int64_t asked_us, const StoreReply& reply) {
  if (breaker_.OnFailure(asked_us, MonotonicUs())) return absl::UnavailableError(reply.text);
  TellState(reply.text);
  return absl::OkStatus();
}

void LimitStore::EndAsk(LimitAsk& ask, LimitVerdict verdict, AskEnd end) noexcept {
  const bool ended = ask.End(verdict);
  if (ask.counted_) return;
  ask.counted_ = true;
  under_way_.fetch_sub(1, std::memory_order_relaxed);
  std::function<void()> wake;
  wake.swap(ask.wake_);  // whatever is thrown, it does not stay
  try {
    if (options_.on_end) options_.on_end(ended ? end : AskEnd::kTimeout, MonotonicUs() - ask.asked_us_);
    if (ended && wake) wake();
  } catch (const std::exception&) {
    // Without memory to be woken with the owner looks when the ask is due.
  }
}

absl::Status LimitStore::ExpireAsks(int64_t now_us) {
  while (!waiting_.empty() && (waiting_.front()->counted_ || now_us >= waiting_.front()->due_us())) {
    const std::shared_ptr<LimitAsk> ask = std::move(waiting_.front());
    waiting_.pop_front();
    if (ask->counted_) continue;
    EndAsk(*ask, LimitVerdict::kFailed, AskEnd::kTimeout);
    if (breaker_.OnFailure(ask->asked_us_, now_us)) return Late();
  }
  return now_us < SilentUs() ? absl::OkStatus() : absl::UnavailableError("the store has stopped answering");
}

int64_t LimitStore::SilentUs() const {
  // Nobody waits for what is given back and renewed, and yet it is not sent for ever to a store that does not read.
  if (sent_.empty()) return std::numeric_limits<int64_t>::max();
  return sent_.front().at_us + std::max(kRenewUs, options_.patience_us);
}

void LimitStore::RenewPlaces(int64_t now_us) {
  if (held_.empty() || now_us < renew_us_) return;
  renew_us_ = now_us + kRenewUs;
  std::unordered_map<std::string, std::vector<std::string>> names;  // by key
  const auto send = [this](const std::string& key, std::vector<std::string>* arguments) {
    SendCommand({Script::kRenew, nullptr, renew_whole_}, {key}, *arguments);
    arguments->resize(1);
  };
  for (const auto& [ask, owner] : held_) {
    const std::string key = PlacesKey(ask->demand());
    std::vector<std::string>& arguments = names[key];
    if (arguments.empty()) arguments.push_back(absl::StrCat(kPlaceTtlMs));
    for (int64_t i = 1; i <= ask->demand().places; ++i) {
      arguments.push_back(absl::StrCat(ask->name_, i));
      if (arguments.size() > kRenewedMax) send(key, &arguments);
    }
  }
  for (auto& [key, arguments] : names) {
    if (arguments.size() > 1) send(key, &arguments);
  }
  renew_whole_ = false;
}

void LimitStore::SayGoodbye() {
  const int64_t until_us = MonotonicUs() + std::min(kGoodbyeUs, options_.patience_us);
  // What was given back on the way out is on the wire when this returns, if the store takes it.
  try {
    while (connection_ != nullptr && !sent_.empty() && MonotonicUs() < until_us) {
      if (!connection_->Write().ok()) break;
      if (Wait(until_us) && !(connection_->Read().ok() && TakeAnswers().ok())) break;
    }
  } catch (const std::exception&) {
  }
  for (const auto& ask : waiting_) EndAsk(*ask, LimitVerdict::kFailed, AskEnd::kAway);
}

absl::Status LimitStore::Connect() {
  const int64_t until_us = MonotonicUs() + std::max(kConnectUs, options_.patience_us);
  absl::StatusOr<std::unique_ptr<StoreConnection>> connection =
      StoreConnection::Connect(options_.address, until_us, stop_fd_);
  if (!connection.ok()) return connection.status();
  if (absl::Status status = Greet(**connection, until_us); !status.ok()) return status;
  // As a request would ask, and it has to write: a store that is full, read-only or slow is away, however well it greets.
  const std::vector<std::string_view> probe = {"EVALSHA", digests_[static_cast<size_t>(Script::kTake)],
                                               "2",       kProbeKey,
                                               kProbeKey, "1000000",
                                               "1",       "0",
                                               "0",       "probe",
                                               "0"};
  const absl::StatusOr<StoreReply> answer = (*connection)->Call(probe, MonotonicUs() + options_.patience_us);
  if (!answer.ok()) return answer.status();
  if (answer->integers.size() != 3) return ErrorOf("EVALSHA", *answer);
  connection_ = *std::move(connection);
  ++connections_;
  breaker_.Close(MonotonicUs());
  renew_us_ = 0;  // the store may have lost them
  SetAway(false);
  TellState("");
  return absl::OkStatus();
}

absl::StatusOr<std::string> LimitStore::ReadPassword(const std::string& path) {
  absl::StatusOr<std::string> text = ReadSecretFile(path, kPasswordBytesMax);
  if (!text.ok()) return text;
  text->resize(std::min(text->size(), text->find_first_of("\r\n")));
  if (text->empty()) return FileError(path, "there is no password in its first line");
  return text;
}

absl::Status LimitStore::Greet(StoreConnection& connection, int64_t until_us) {
  const auto call = [&](const std::vector<std::string_view>& command, std::string* text) -> absl::Status {
    absl::StatusOr<StoreReply> reply = connection.Call(command, until_us);
    if (!reply.ok()) return reply.status();
    if (reply->kind != StoreReply::Kind::kText) {
      // Some proxies repeat what they were told, which here is the password. A Redis begins with a word in capitals.
      if (command.front() == "AUTH") reply->text.resize(CapitalsOf(reply->text));
      return ErrorOf(std::string(command.front()), *reply);
    }
    if (text != nullptr) *text = std::move(reply->text);
    return absl::OkStatus();
  };
  if (!options_.password_path.empty()) {
    const absl::StatusOr<std::string> password = ReadPassword(options_.password_path);
    if (!password.ok()) return password.status();
    std::vector<std::string_view> auth = {"AUTH"};
    if (!options_.address.user.empty()) auth.push_back(options_.address.user);
    auth.push_back(*password);
    if (absl::Status status = call(auth, nullptr); !status.ok()) return status;
  }
  if (const std::string database = absl::StrCat(options_.address.database); database != "0") {
    if (absl::Status status = call({"SELECT", database}, nullptr); !status.ok()) return status;
  }
  for (size_t script = 0; script < kScripts; ++script) {
    if (absl::Status status = call({"SCRIPT", "LOAD", TextOf(script)}, &digests_[script]); !status.ok()) return status;
    if (!IsDigest(digests_[script])) return absl::UnavailableError("SCRIPT: not the answer of a Redis");
  }
  return absl::OkStatus();
}

void LimitStore::Disconnect(const absl::Status& why) noexcept {
  breaker_.Open(MonotonicUs());
  SetAway(true);
  for (const Sent& sent : sent_) {
    if (sent.script == Script::kTake) sent.ask->stage_ = LimitAsk::Stage::kOver;
  }
  sent_.clear();
  connection_.reset();
  for (const auto& ask : waiting_) EndAsk(*ask, LimitVerdict::kFailed, AskEnd::kError);
  waiting_.clear();
  if (why.code() == absl::StatusCode::kCancelled) return;  // by us
  try {
    TellState(std::string(why.message()));
  } catch (const std::exception&) {
  }
}

void LimitStore::SetAway(bool away) {
  away_.store(away, std::memory_order_relaxed);
  if (options_.on_away) options_.on_away(away);
}

void LimitStore::TellState(std::string_view reason) {
  const bool away = connection_ == nullptr;
  const int64_t now_us = MonotonicUs();
  const std::string store = options_.address.Text();
  if (reason.empty()) {
    if (!told_away_ && connections_ > 1) return;  // nobody heard that it was away
    told_away_ = false;
    const LogField fields[] = {{"store", store}};
    Log(LogLevel::kInfo, "the store of shared limits answers", fields);
    return;
  }
  if (told_us_ != 0 && now_us - told_us_ < kTellUs) return;
  told_us_ = now_us;
  told_away_ = away;
  const LogField fields[] = {{"store", store}, {"reason", reason}};
  Log(LogLevel::kWarning,
      !away                 ? "the store of shared limits answers with an error"
      : options_.fails_open ? "the store of shared limits is away: each server goes by its own counts"
                            : "the store of shared limits is away: requests of tenants with limits are refused",
      fields);
}

}  // namespace hydrant
