// StuckGuard ends the process unless it is destroyed in time: nothing here can end a device's step, a read from a disk or the lookup of
// a host's name that never returns, and a process that ignores SIGTERM is worse than an exit code.
//
// Thread: any; it has one of its own.
#ifndef HYDRANT_SERVER_PROCESS_STUCK_GUARD_H_
#define HYDRANT_SERVER_PROCESS_STUCK_GUARD_H_

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "server/process/exit_codes.h"
#include "server/process/log.h"

namespace hydrant {

class StuckGuard {
 public:
  // For the log's writer to put a last line on stderr. It may be stuck there itself, so nobody waits for it.
  static constexpr auto kLastLine = std::chrono::milliseconds(200);

  StuckGuard(const char* what, double seconds, int exit_code = kExitInternal)
      : thread_([this, what, exit_code, limit = std::chrono::duration<double>(seconds)] {
          std::unique_lock<std::mutex> lock(mutex_);
          if (ended_.wait_for(lock, limit, [this] { return done_; })) return;
          Log(LogLevel::kError,
              absl::StrCat(what, " did not end within ", limit.count(), " s of the shutdown: exiting without it"));
          std::this_thread::sleep_for(kLastLine);
          _exit(exit_code);
        }) {}
  ~StuckGuard() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      done_ = true;
    }
    ended_.notify_one();
    thread_.join();
  }
  StuckGuard(const StuckGuard&) = delete;
  StuckGuard& operator=(const StuckGuard&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_STUCK_GUARD_H_
