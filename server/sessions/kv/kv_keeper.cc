#include "server/sessions/kv/kv_keeper.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <new>
#include <utility>

namespace hydrant {
namespace {

// How much the writer steps back: the engine computes, and clients wait. The reader is waited for.
constexpr int kNiceness = 10;
// The last file's part of the rate of reading: some five count.
constexpr double kRateWeight = 0.3;
// By which it rises with each file that is not read for it.
constexpr double kTriedAgain = 1.05;

// For this thread alone, on Linux; where it may not be, it is as important as others.
void BeModest() { (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness); }

}  // namespace

KvKeeper::KvKeeper(std::unique_ptr<LogDirectory> directory, KvFormat format, Options options)
    : disk_(std::move(directory), std::move(format), options.keys),
      options_(std::move(options)),
      opener_(
          [this](const SessionName& session, uint64_t turn) {
            KvOpener::Opened opened;
            opened.file = disk_.Open(session, turn, &opened.reject);
            return opened;
          },
          options_.clock, options_.read_max_us) {}

void KvKeeper::Start(Hooks hooks) {
  hooks_ = std::move(hooks);
  look_at_us_ = options_.clock() + options_.look_us;
  writer_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "kv writer");
    BeModest();
    RunWriter();
  });
  reader_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "kv reader");
    RunReader();
  });
  opener_.Start();
}

void KvKeeper::Flush(int64_t patience_us) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    flushes_ = true;
  }
  const auto behind = std::make_shared<std::promise<void>>();
  Write({}, /*urgent=*/false, [behind](bool) { behind->set_value(); });
  (void)behind->get_future().wait_for(std::chrono::microseconds(patience_us));
}

void KvKeeper::Stop() {
  std::deque<Writing> writes;
  std::deque<Removal> removals;
  std::deque<Reading> reads;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    writes.swap(urgent_);
    for (Writing& writing : background_) writes.push_back(std::move(writing));
    background_.clear();
    removals.swap(removals_);
    reads.swap(reads_);
  }
  arrived_.notify_one();
  read_arrived_.notify_one();
  if (writer_.joinable()) writer_.join();
  if (reader_.joinable()) reader_.join();
  opener_.Stop();
  for (Writing& writing : writes) {
    if (writing.done) writing.done(false);
  }
  // What is left of it belongs to no session that the log has: the next start sweeps it.
  for (Removal& removal : removals) {
    if (removal.done) removal.done(false);
  }
  for (Reading& reading : reads) reading.done({});
}

void KvKeeper::Write(KvWrite write, bool urgent, std::function<void(bool)> done) {
  bool waits = false;
  try {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto bytes = static_cast<int64_t>(write.kv.size);
    // One at least, however large it is, and what takes none.
    const bool room = waiting_bytes_ == 0 || bytes == 0 || waiting_bytes_ + bytes <= options_.waiting_bytes_max;
    if (!stopping_ && (room || urgent)) {
      if (!room) write.tokens.reset();
      if (!room) write.kv = {};  // who waits hears of it on the thread that it hears everything on
      const auto taken = static_cast<int64_t>(write.kv.size);
      Writing& writing = (urgent ? urgent_ : background_).emplace_back();
      writing.write = std::move(write);
      writing.done.swap(done);
      writing.since_us = options_.clock();
      waiting_bytes_ += taken;
      waits = true;
    }
    if (!room) ++counts_.passed;
  } catch (const std::bad_alloc&) {
    // No memory to let it wait.
  }
  if (waits) {
    arrived_.notify_one();
  } else if (done) {
    done(false);
  }
}

bool KvKeeper::has_room() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return waiting_bytes_ < options_.waiting_bytes_max / 2;
}

void KvKeeper::Remove(const SessionName& session, std::function<void(bool)> done) {
  bool nothing = false, waits = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    // Its files are known, and it has none.
    nothing = swept_ && catalogue_.Find(session) == nullptr && in_hand_ != session && !HasLeftNow(session);
    if (!stopping_ && !nothing) {
      removals_.emplace_back().session = session;
      removals_.back().done.swap(done);
      waits = true;
    }
    if (in_hand_ == session) cancelled_ = true;
    for (std::deque<Writing>* queue : {&urgent_, &background_}) {
      for (Writing& writing : *queue) {
        if (writing.write.binding.session != session) continue;
        waiting_bytes_ -= static_cast<int64_t>(writing.write.kv.size);
        writing.write.kv = {};  // nothing is written, and whoever waits hears so
        writing.cancelled = true;
      }
    }
  }
  if (waits) {
    arrived_.notify_one();
  } else if (done) {
    done(nothing);
  }
}

void KvKeeper::Supersede(const SessionName& session, uint64_t turn) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const KvFileEntry* entry = catalogue_.Find(session);
    if (stopping_ || entry == nullptr || entry->turn >= turn) return;
    Removal& removal = removals_.emplace_back();
    removal.session = session;
    removal.turn = turn;
  }
  arrived_.notify_one();
}

void KvKeeper::Wake() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    wakes_ = true;
  }
  arrived_.notify_one();
}

KvKeeper::Work KvKeeper::WaitForWork() {
  std::unique_lock<std::mutex> lock(mutex_);
  Work work;
  const auto ready = [&] {
    return stopping_ || wakes_ || !removals_.empty() || !urgent_.empty() || !background_.empty() || !swept_;
  };
  const int64_t left_us = std::max<int64_t>(0, look_at_us_ - options_.clock());
  if (!ready()) arrived_.wait_for(lock, std::chrono::microseconds(left_us), ready);
  work.over = stopping_;
  if (stopping_) return work;
  if (!removals_.empty()) {
    work.removal = std::move(removals_.front());
    removals_.pop_front();
    return work;
  }
  std::deque<Writing>* from = nullptr;
  if (!urgent_.empty()) {
    from = &urgent_;
  } else if (flushes_ && !background_.empty()) {
    from = &background_;
  } else if (!swept_) {
    work.sweeps = true;
  } else if (wakes_ || options_.clock() >= look_at_us_) {
    wakes_ = false;  // what is to be looked for does not wait for what was found before
  } else if (!background_.empty()) {
    from = &background_;
  }
  if (from == nullptr) return work;
  in_hand_is_urgent_ = from == &urgent_;
  work.writing = std::move(from->front());
  from->pop_front();
  waiting_bytes_ -= static_cast<int64_t>(work.writing->write.kv.size);
  in_hand_ = work.writing->write.binding.session;
  cancelled_ = false;
  return work;
}

void KvKeeper::RunWriter() {
  for (;;) {
    Work work = WaitForWork();
    if (work.over) return;
    try {
      if (work.removal.has_value()) {
        DoRemoval(*work.removal);
      } else if (work.writing.has_value()) {
        DoWrite(*work.writing);
      } else if (work.sweeps) {
        SweepSome();
      } else {
        look_at_us_ = options_.clock() + options_.look_us;
        RemoveLeft();
        CutToSize();
        hooks_.look();
      }
    } catch (const std::bad_alloc&) {
      // It is not done. What is on the disk says what it is all the same.
      if (work.sweeps) resealed_ = false;
    }
  }
}

void KvKeeper::Tell(const SessionName& session, uint64_t turn) {
  try {
    hooks_.on_change(session, turn);
  } catch (const std::bad_alloc&) {
    // Who is not told looks for a file that is not there, or does not know of one that Open finds.
  }
}

// Takes the session's file away, and out of the catalogue.
void KvKeeper::Lose(const SessionName& session) {
  std::vector<uint64_t> turns;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const KvFileEntry* entry = catalogue_.Find(session);
    if (entry == nullptr) return;
    turns = entry->bases;
    turns.push_back(entry->turn);
    catalogue_.Remove(session);
  }
  // The newest first: none is without what it goes on from.
  for (size_t i = turns.size(); i-- > 0;) {
    (void)RemoveFile(session, turns[i]);
  }
  Tell(session, 0);
}

// Whether nothing is left of what was to be removed.
bool KvKeeper::RemoveFiles(const Removal& removal) {
  bool swept = false, is_before = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const KvFileEntry* entry = catalogue_.Find(removal.session);
    swept = swept_;
    is_before = entry != nullptr && (removal.turn == 0 || entry->turn < removal.turn);
  }
  if (!swept && removal.turn == 0) RemoveUnswept(removal.session);
  if (is_before) Lose(removal.session);
  return removal.turn != 0 || RemoveLeftOf(removal.session);
}

void KvKeeper::DoRemoval(Removal& removal) {
  bool gone = false;
  try {
    gone = RemoveFiles(removal);
  } catch (const std::bad_alloc&) {
    // What is left is removed by the sweep, the next write, or the next start.
  }
  if (removal.done) removal.done(gone);
}

void KvKeeper::DoWrite(Writing& writing) {
  const KvWrite& write = writing.write;
  KvOutcome outcome = writing.cancelled ? KvOutcome::kWentOn : KvOutcome::kFailed;
  int64_t written = 0;
  try {
    const bool nothing = writing.cancelled || (write.kv.empty() && write.received == nullptr);
    if (!nothing) outcome = WriteOne(write, &written);
  } catch (const std::bad_alloc&) {
    // No memory for the header.
  }
  const bool durable = outcome == KvOutcome::kTaken;
  const int64_t now_us = options_.clock();
  bool goes = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    in_hand_.reset();
    goes = std::exchange(cancelled_, false) && durable;
    if (durable && !goes) {
      ++counts_.writes;
      counts_.written_bytes += static_cast<uint64_t>(written);
      Observe(static_cast<double>(now_us - writing.since_us) * 1e-6, &write_times_);
    }
  }
  if (goes) {
    Lose(write.binding.session);
    outcome = KvOutcome::kWentOn;
  } else if (durable) {
    Tell(write.binding.session, write.binding.turn);
  }
  if (write.outcome != nullptr) *write.outcome = outcome;
  writing.write.received.reset();  // what was not adopted is gone when somebody hears so
  if (writing.done) writing.done(durable && !goes);
}

// Lets time go by until so many bytes more may have been written; no longer once somebody waits for this thread.
void KvKeeper::Pace(int64_t bytes) {
  if (options_.bytes_per_s == 0 || in_hand_is_urgent_) return;
  const int64_t now_us = options_.clock();
  paced_until_us_ = std::max(paced_until_us_, now_us) +
                    static_cast<int64_t>(static_cast<double>(bytes) / static_cast<double>(options_.bytes_per_s) * 1e6);
  std::unique_lock<std::mutex> lock(mutex_);
  arrived_.wait_for(lock, std::chrono::microseconds(paced_until_us_ - now_us),
                    [this] { return stopping_ || flushes_ || cancelled_ || !urgent_.empty() || !removals_.empty(); });
}

// The file that this one may go on from: of an earlier turn, whose history is the beginning of this one's.
std::shared_ptr<const OpenKvFile> KvKeeper::BaseOf(const KvWrite& write) {
  uint64_t turn = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const KvFileEntry* entry = catalogue_.Find(write.binding.session);
    if (write.tokens == nullptr || entry == nullptr || entry->damaged || entry->turn >= write.binding.turn) {
      return nullptr;
    }
    turn = entry->turn;
  }
  KvReject reject = KvReject::kNone;
  std::shared_ptr<const OpenKvFile> file = disk_.Open(write.binding.session, turn, &reject);
  if (file == nullptr) return nullptr;
  const KvBinding& before = file->header().binding;
  const auto computed = static_cast<size_t>(before.computed);
  const bool is_beginning = before.session == write.binding.session && before.policy == write.binding.policy &&
                            before.computed <= write.binding.computed && computed <= write.tokens->size() &&
                            before.tokens == DigestOfTokens(std::span(*write.tokens).first(computed));
  return is_beginning ? file : nullptr;
}

// Notes what became of a write. Returns the turns of the session's files that are not needed any more.
std::vector<uint64_t> KvKeeper::NoteFile(const KvWrite& write, const KvFileHeader& header, int error) {
  KvFileEntry file = {write.binding.turn, disk_.BytesOf(header), write.used_s, write.tenant, {}};
  std::vector<uint64_t> gone;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (error < 0) {
    ++counts_.errors;
    retry_at_us_ = options_.clock() + options_.retry_us;
  }
  const KvFileEntry* entry = catalogue_.Find(write.binding.session);
  if (entry != nullptr && (error == 0 || entry->turn == file.turn)) {
    std::vector<uint64_t>& turns = header.base_turn != 0 ? file.bases : gone;
    turns = entry->bases;
    if (entry->turn != file.turn) turns.push_back(entry->turn);
    if (header.base_turn != 0) file.bytes += entry->bytes;
  }
  if (error == 0) {
    left_.erase({write.binding.session, write.binding.turn});  // it is another file now
    catalogue_.Put(write.binding.session, std::move(file));
  } else if (entry != nullptr && entry->turn == write.binding.turn) {
    catalogue_.Remove(write.binding.session);  // it was of the same turn, and is gone
  }
  return gone;
}

KvOutcome KvKeeper::WriteOne(const KvWrite& write, int64_t* written) {
  KvFileHeader header;
  std::string head;
  if (write.received != nullptr) {
    header = write.received->header();
  } else {
    header.format = disk_.format();
    header.binding = write.binding;
    header.live = write.kv.live;
    header.wall_s = write.used_s;
    if (header.live < 1 || header.payload_bytes() != static_cast<int64_t>(write.kv.size)) return KvOutcome::kFailed;
  }
  // It may have been forgotten, or have gone on, while this waited. What is forgotten from now on takes the file with it (Remove).
  const std::optional<Options::Owner> owner = options_.owner_of(write.binding.session);
  if (!owner.has_value() || owner->turn != write.binding.turn) return KvOutcome::kWentOn;
  // A disk that does not write is not asked again and again: whoever waits hears at once that it does not.
  const bool waits = options_.clock() < retry_at_us_;
  if (write.received == nullptr && !waits) {
    head = EncodeKvHead(header, write.kv.view());
    if (const std::shared_ptr<const OpenKvFile> base = BaseOf(write)) disk_.PutOnto(*base, &header, &head);
  }
  if (waits || !MakeRoomFor(write, &header, &head)) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++counts_.passed;
    return waits ? KvOutcome::kFailed : KvOutcome::kNoRoom;
  }
  const int error = write.received != nullptr
                        ? disk_.Adopt(*write.received)
                        : disk_.Write(header, head, write.kv.view(), [this](int64_t bytes) { Pace(bytes); });
  const std::vector<uint64_t> gone = NoteFile(write, header, error);
  for (size_t i = gone.size(); i-- > 0;) (void)RemoveFile(write.binding.session, gone[i]);
  *written = header.own_bytes();
  return error == 0 ? KvOutcome::kTaken : KvOutcome::kFailed;
}

bool KvKeeper::MayHave(const SessionName& session, uint64_t turn) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const KvFileEntry* entry = catalogue_.Find(session);
  return entry == nullptr ? !swept_ : entry->turn == turn;
}

std::shared_ptr<const OpenKvFile> KvKeeper::Open(const SessionName& session, uint64_t turn,
                                                 const std::function<KvBinding()>& expected) {
  KvOpener::Opened opened = {nullptr, KvReject::kTimeout};
  bool hangs = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    hangs = ReadHangs();
  }
  if (!hangs) opened = opener_.Open(session, turn);
  if (opened.file != nullptr) opened.reject = CheckKvBinding(opened.file->header().binding, expected());
  if (opened.reject == KvReject::kNone) return opened.file;
  Reject(opened.reject);
  return nullptr;
}

void KvKeeper::Reject(KvReject reject) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++counts_.rejected[static_cast<size_t>(reject)];
}

void KvKeeper::Read(std::shared_ptr<const OpenKvFile> file, std::function<void(KvBytes)> done) {
  const int64_t bytes = file->header().payload_bytes();
  bool waits = false;
  try {
    const std::lock_guard<std::mutex> lock(mutex_);
    const bool hangs = ReadHangs();
    const bool room = !hangs && (reading_bytes_ == 0 || reading_bytes_ + bytes <= options_.reading_bytes_max);
    if (!room) ++counts_.rejected[static_cast<size_t>(hangs ? KvReject::kTimeout : KvReject::kBusy)];
    if (!stopping_ && room) {
      Reading& reading = reads_.emplace_back();
      reading.file = std::move(file);
      reading.done.swap(done);
      reading.since_us = options_.clock();
      reading_bytes_ += bytes;
      waits = true;
    }
  } catch (const std::bad_alloc&) {
    Reject(KvReject::kMemory);
  }
  if (waits) {
    read_arrived_.notify_one();
  } else {
    done({});
  }
}

void KvKeeper::RunReader() {
  for (;;) {
    Reading reading;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      read_arrived_.wait(lock, [this] { return stopping_ || !reads_.empty(); });
      if (reads_.empty()) return;
      reading = std::move(reads_.front());
      reads_.pop_front();
      read_since_us_ = options_.clock();
    }
    KvReject reject = KvReject::kNone;
    KvBytes kv = ReadOne(*reading.file, &reject);
    const SessionName session = reading.file->header().binding.session;
    const int64_t bytes = reading.file->header().payload_bytes();
    reading.file.reset();  // its descriptor is not needed any more
    const int64_t now_us = options_.clock();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (reject == KvReject::kNone) {
        const double rate =
            static_cast<double>(kv.size) / std::max(1e-6, static_cast<double>(now_us - *read_since_us_) * 1e-6);
        read_rate_ = read_rate_ == 0 ? rate : read_rate_ + kRateWeight * (rate - read_rate_);
      }
      read_since_us_.reset();
      reading_bytes_ -= bytes;
      if (reject == KvReject::kNone) {
        ++counts_.reads;
        counts_.read_bytes += kv.size;
        Observe(static_cast<double>(now_us - reading.since_us) * 1e-6, &read_times_);
      } else {
        NoteUnread(session, reject);
      }
    }
    reading.done(std::move(kv));
  }
}

// REQUIRES: the lock.
void KvKeeper::NoteUnread(const SessionName& session, KvReject reject) {
  ++counts_.rejected[static_cast<size_t>(reject)];
  if (reject == KvReject::kMemory) return;
  // What comes next would be no better for going on from it.
  catalogue_.SetDamaged(session);
  if (swept_ || !unread_.has_value()) return;
  try {
    unread_->push_back(session);
  } catch (const std::bad_alloc&) {
    unread_.reset();
  }
}

// REQUIRES: the lock.
bool KvKeeper::ReadHangs() const {
  return read_since_us_.has_value() && options_.clock() - *read_since_us_ >= options_.read_max_us;
}

KvBytes KvKeeper::ReadOne(const OpenKvFile& file, KvReject* reject) {
  const KvFileHeader& header = file.header();
  try {
    KvBytes kv;
    kv.size = static_cast<size_t>(header.payload_bytes());
    kv.computed = header.binding.computed;
    kv.live = header.live;
    const std::shared_ptr<std::byte[]> bytes = std::make_shared_for_overwrite<std::byte[]>(kv.size);
    *reject = disk_.Read(file, {bytes.get(), kv.size});
    if (*reject != KvReject::kNone) return {};
    kv.bytes = bytes;
    return kv;
  } catch (const std::bad_alloc&) {
    *reject = KvReject::kMemory;
    return {};
  }
}

void KvKeeper::CountUnread(KvReject why) {
  Reject(why);
  if (why != KvReject::kSlower) return;
  // A disk that was slow once is tried again.
  const std::lock_guard<std::mutex> lock(mutex_);
  read_rate_ *= kTriedAgain;
}

void KvKeeper::CountPassed() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++counts_.passed;
}

void KvKeeper::CountMoved() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++counts_.moved;
}

void KvKeeper::CountError() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++counts_.errors;
}

double KvKeeper::read_rate() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return read_rate_;
}

KvCounts KvKeeper::counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  KvCounts counts = counts_;
  counts.files = catalogue_.size();
  counts.bytes = catalogue_.bytes();
  return counts;
}

CommitTimes KvKeeper::write_times() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return write_times_;
}

CommitTimes KvKeeper::read_times() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return read_times_;
}

void KvKeeper::Observe(double seconds, CommitTimes* times) {
  const auto bound = std::lower_bound(CommitTimes::kBoundsS.begin(), CommitTimes::kBoundsS.end(), seconds);
  ++times->counts[static_cast<size_t>(bound - CommitTimes::kBoundsS.begin())];
  times->sum_s += seconds;
}

}  // namespace hydrant
