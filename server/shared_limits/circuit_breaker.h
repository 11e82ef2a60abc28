// CircuitBreaker says whether the store is asked at all. A store that does not answer costs the few requests that found out
// their patience, and none after them: they are told at once that it is away, until it has answered a question of nobody's.
//
// Thread: one at a time. Time is an argument, monotonic microseconds.
#ifndef HYDRANT_SERVER_SHARED_LIMITS_CIRCUIT_BREAKER_H_
#define HYDRANT_SERVER_SHARED_LIMITS_CIRCUIT_BREAKER_H_

#include <cstdint>

namespace hydrant {

class CircuitBreaker {
 public:
  // Failures in a row that open it, each of a question that was asked after the one before had failed: a pause of the store is one,
  // however many wait for it meanwhile, and five are five times their patience.
  static constexpr int32_t kFailuresMax = 5;
  // Pauses between attempts: none before the first, so that a connection that an idle store has closed is back at once.
  static constexpr int64_t kPauseMinUs = 100'000;
  static constexpr int64_t kPauseMaxUs = 5'000'000;

  bool open() const { return open_; }             // the store is away; so it is before the first Close
  int64_t retry_us() const { return retry_us_; }  // when to look for it again. REQUIRES: open()

  // An answer that came in time.
  void OnAnswer();
  // One that did not, or that was an error; when it was asked. True: these were enough, Open is due.
  bool OnFailure(int64_t asked_us, int64_t now_us);
  // The connection is gone, or could not be made.
  void Open(int64_t now_us);
  // There is one, and a question was answered in time.
  void Close(int64_t now_us);

 private:
  bool open_ = true;
  int32_t failures_ = 0;  // in a row
  int64_t failed_us_ = 0;
  int64_t closed_us_ = 0;
  int64_t pause_us_ =
      0;  // before the next attempt; what resets it is an answer to a request, or kPauseMaxUs without Open
  int64_t retry_us_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SHARED_LIMITS_CIRCUIT_BREAKER_H_
