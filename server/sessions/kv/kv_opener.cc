#include "server/sessions/kv/kv_opener.h"

#include <pthread.h>

#include <chrono>
#include <new>
#include <utility>

namespace hydrant {

KvOpener::KvOpener(OpenFile open, std::function<int64_t()> clock, int64_t max_us)
    : open_(std::move(open)), clock_(std::move(clock)), max_us_(max_us) {}

void KvOpener::Start() {
  const std::lock_guard<std::mutex> lock(mutex_);
  runs_ = true;
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "kv opener");
    Run();
  });
}

void KvOpener::Stop() {
  std::deque<std::shared_ptr<Opening>> openings;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    runs_ = false;
    openings.swap(openings_);
  }
  for (const std::shared_ptr<Opening>& opening : openings) opening->opened.set_value({});
  arrived_.notify_one();
  if (thread_.joinable()) thread_.join();
}

KvOpener::Opened KvOpener::Open(const SessionName& session, uint64_t turn) {
  std::shared_ptr<Opening> opening;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (since_us_.has_value() && clock_() - *since_us_ >= max_us_) return {nullptr, KvReject::kTimeout};
    if (runs_) {
      opening = std::make_shared<Opening>();
      opening->session = session;
      opening->turn = turn;
      openings_.push_back(opening);
    }
  }
  if (opening == nullptr) return open_(session, turn);
  std::future<Opened> opened = opening->opened.get_future();
  arrived_.notify_one();
  const bool in_time = opened.wait_for(std::chrono::microseconds(max_us_)) == std::future_status::ready;
  return in_time ? opened.get() : Opened{nullptr, KvReject::kTimeout};
}

void KvOpener::Run() {
  for (;;) {
    std::shared_ptr<Opening> opening;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      since_us_.reset();
      arrived_.wait(lock, [this] { return !runs_ || !openings_.empty(); });
      if (!runs_) return;
      opening = std::move(openings_.front());
      openings_.pop_front();
      since_us_ = clock_();
    }
    Opened opened;
    try {
      if (opening.use_count() > 1) opened = open_(opening->session, opening->turn);
    } catch (const std::bad_alloc&) {
      opened = {nullptr, KvReject::kMemory};
    }
    opening->opened.set_value(std::move(opened));
  }
}

}  // namespace hydrant
