// StepShares divides a step between the tenants that have something to compute in it, by weight. Admission and the
// turns of prompts are fair over time (tenant.h), but every stream waits for whole steps, and all rows of a step make
// it long. In a bounded step a tenant with two streams has room for them and for its prompt beside a tenant with two
// hundred streams, whose rows take turns.
//
// The tenant that has had less goes first: each tenant has a level, the cost of its rows so far divided by its weight,
// and a step raises the lowest levels until it is full. The level of a tenant that asks for less than its share falls
// behind the others', by a few full steps at most: that much of a later burst is computed at once, and after that the
// tenant gets its share.
//
// Costs are those of prefill_cost.h; a decode row costs what a prompt token at its depth does.
//
// Thread: engine. Begin allocates for more tenants than were reserved.
#ifndef HYDRANT_SCHEDULER_FAIRNESS_STEP_SHARES_H_
#define HYDRANT_SCHEDULER_FAIRNESS_STEP_SHARES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hydrant {

class StepShares {
 public:
  void Reserve(size_t tenants) { shares_.reserve(tenants); }
  // A new step. Levels stay.
  void Begin(size_t tenants);
  // The tenant's weight and the cost of the rows that it could compute. REQUIRES: weight > 0.
  void SetWeight(int32_t tenant, double weight) { of(tenant).weight = weight; }
  void AddDecode(int32_t tenant, double cost) { of(tenant).decode += cost; }
  void AddPrompt(int32_t tenant, double cost) { of(tenant).prompts += cost; }

  // Divides a step that may cost `total`; no tenant's level stays further behind than `lag`. With one tenant, or if
  // everything fits, nothing is bounded. REQUIRES: total > 0, lag >= total.
  void Divide(double total, double lag);
  bool bounded() const { return bounded_; }
  // More than one tenant has something to compute.
  bool several() const { return several_; }

  // True if the tenant's share has room for a decode row beside the part that is kept for its prompts. There is always
  // room for the first row. REQUIRES: bounded().
  bool HasRoomForDecode(int32_t tenant, double cost) const;
  // The part of the share that is left for prompts. REQUIRES: bounded().
  double left(int32_t tenant) const;

  // Charges a row, whether the step is bounded or not.
  void TakeDecode(int32_t tenant, double cost);
  void TakePrompt(int32_t tenant, double cost) { Take(of(tenant), cost); }
  // Charges KV that the tenant had moved.
  void TakeMove(int32_t tenant, double cost) { Take(of(tenant), cost); }

 private:
  struct Share {
    double weight = 1.0;
    double level = 0.0;    // cost of all its rows / weight
    double decode = 0.0;   // could be computed
    double prompts = 0.0;  // could be computed
    double granted = 0.0;
    double taken = 0.0;
    bool has_row = false;
    double wanted() const { return decode + prompts; }
    // The cost that the tenant gets when the levels are raised to `to_level`.
    double UpTo(double to_level) const;
  };
  Share& of(int32_t tenant) { return shares_[static_cast<size_t>(tenant)]; }
  const Share& of(int32_t tenant) const { return shares_[static_cast<size_t>(tenant)]; }
  static void Take(Share& share, double cost);
  double GivenUpTo(double level) const;

  std::vector<Share> shares_;  // [tenant]
  bool several_ = false;
  bool bounded_ = false;
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_FAIRNESS_STEP_SHARES_H_
