// ByteBudget bounds the memory that clients make the server hold: bodies on their way in and answers on their way out, of all
// requests together and of each tenant.
//
// Thread: any; a short lock. A request takes it two to four times in its life.
//
// Invariants
//  1. What was taken is given back exactly once.
//  2. Half of the budget is for whoever comes first, the other half is shared out by weight: a tenant that has less than its part
//     of that half always finds room, whatever the others hold.
//  3. The last eighth of the budget is for small requests, so that few large ones never keep all others out.
#ifndef HYDRANT_SERVER_TENANTS_BYTE_BUDGET_H_
#define HYDRANT_SERVER_TENANTS_BYTE_BUDGET_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace hydrant {

// Whether `more` may be added where `all` is in use, `own` of it the asker's: half of `most` is for whoever comes first, and of the
// other half `share`, in [0, 1], is the asker's. A share of 1 is that of somebody who is alone.
constexpr bool FitsShare(int64_t all, int64_t own, int64_t more, int64_t most, double share) {
  const double half = static_cast<double>(most) / 2;
  if (share >= 1) return all + more <= most;
  return static_cast<double>(all + more) <= half || static_cast<double>(own + more) <= share * half;
}

class ByteBudget {
 public:
  explicit ByteBudget(int64_t bytes_max) : bytes_max_(bytes_max) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  enum class Lack : uint8_t {
    kTenant,  // of the tenant's part
    kAll,     // of the whole
  };
  // Takes `bytes` for the tenant of this index, for a request that has `before` already, or says what is lacking and takes
  // nothing. `share` is the tenant's weight's part of all.
  std::optional<Lack> TryTake(int32_t tenant, double share, int64_t bytes, int64_t before = 0);
  // What is lacking for an answer whose size nobody knows yet, and which counts as a large one.
  std::optional<Lack> LackForAnswer(int32_t tenant, double share);
  // Takes bytes that exist already, such as an answer that was computed, whether they fit or not: the tenant's next
  // request finds no room instead.
  void Take(int32_t tenant, int64_t bytes);
  void GiveBack(int32_t tenant, int64_t bytes);

  int64_t bytes_max() const { return bytes_max_; }
  int64_t used() const;

 private:
  // REQUIRE: mutex_ held.
  int64_t& Own(int32_t tenant);
  std::optional<Lack> LackOf(int32_t tenant, double share, int64_t bytes, bool small);

  const int64_t bytes_max_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  int64_t all_ = 0;
  std::vector<int64_t> own_;  // by tenant
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_TENANTS_BYTE_BUDGET_H_
