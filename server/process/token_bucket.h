// TokenBucket bounds a rate: it fills up evenly, so much a minute, and holds a burst at most.
//
// Thread: one at a time. Time is an argument, monotonic microseconds.
#ifndef HYDRANT_SERVER_PROCESS_TOKEN_BUCKET_H_
#define HYDRANT_SERVER_PROCESS_TOKEN_BUCKET_H_

#include <cstdint>

namespace hydrant {

class TokenBucket {
 public:
  // 0: no limit. The bucket holds `burst`, a minute's worth if nothing else is said. The first limit starts with a full bucket; a later one keeps what was used of the old one, as far as
  // it fits, so that a reload is neither a gift nor a punishment. Nobody gets into debt by a reload, and a debt stays what it
  // is, in tokens, whatever the new limit: those were used beyond any limit, and if a larger one could cover them, a reload
  // down and up again would forgive them.
  void SetLimit(int64_t per_minute, int64_t now_us) { SetLimit(per_minute, per_minute, now_us); }
  void SetLimit(int64_t per_minute, int64_t burst, int64_t now_us);

  bool limited() const { return per_minute_ > 0; }
  // 0 without a limit, and another one for each that began with a full bucket. What was taken in one era is given back in no other.
  int64_t era() const { return limited() ? era_ : 0; }
  int64_t limit() const { return burst_; }  // the most that can be taken at once

  // False: there is less than `amount`, and nothing is taken.
  bool TryTake(int64_t amount, int64_t now_us);
  // Gives back tokens that were taken and not used. Negative: more were used than taken, and nothing can be taken until
  // the bucket has made up for them.
  void GiveBack(int64_t amount, int64_t now_us);

  // What is left as somebody else counts it.
  void SetRemaining(int64_t amount, int64_t now_us);

  int64_t remaining(int64_t now_us) const;  // >= 0: a debt is not shown
  // Seconds until TryTake(amount) would succeed if nobody else took anything; infinity above the limit.
  double SecondsUntil(int64_t amount, int64_t now_us) const;
  double SecondsUntilFull(int64_t now_us) const { return SecondsUntil(burst_, now_us); }

 private:
  double LevelAt(int64_t now_us) const;

  int64_t per_minute_ = 0;
  int64_t burst_ = 0;
  int64_t era_ = 0;   // the last one
  double level_ = 0;  // at level_us_
  int64_t level_us_ = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_TOKEN_BUCKET_H_
