// KvOpener opens KV files on a thread of its own, so that a disk that hangs holds that thread, and nobody else longer than it may.
//
// Thread: any.
//
// Invariants
//  1. Whoever asks waits `max_us` at most; and not at all while a file is being opened for longer.
//  2. A file that nobody waits for any more is not opened, or closed at once.
#ifndef HYDRANT_SERVER_SESSIONS_KV_KV_OPENER_H_
#define HYDRANT_SERVER_SESSIONS_KV_KV_OPENER_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "server/sessions/kv/kv_disk.h"

namespace hydrant {

class KvOpener {
 public:
  struct Opened {
    std::shared_ptr<const OpenKvFile> file;  // null: kNone, there is none; or why not
    KvReject reject = KvReject::kNone;
  };
  using OpenFile = std::function<Opened(const SessionName& session, uint64_t turn)>;

  // `clock`: monotonic microseconds.
  KvOpener(OpenFile open, std::function<int64_t()> clock, int64_t max_us);
  ~KvOpener() { Stop(); }
  KvOpener(const KvOpener&) = delete;
  KvOpener& operator=(const KvOpener&) = delete;

  // Begins the thread. Before that, and after Stop, whoever asks waits for the disk by itself.
  void Start();
  void Stop();
  // kTimeout: the disk does not answer.
  Opened Open(const SessionName& session, uint64_t turn);

 private:
  struct Opening {
    SessionName session{};
    uint64_t turn = 0;
    std::promise<Opened> opened;
  };

  void Run();

  const OpenFile open_;
  const std::function<int64_t()> clock_;
  const int64_t max_us_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  // Guarded by mutex_.
  std::deque<std::shared_ptr<Opening>> openings_;
  std::optional<int64_t> since_us_;  // the one that is being opened
  bool runs_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_KV_KV_OPENER_H_
