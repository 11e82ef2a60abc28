// StepShares divides a step between the tenants that have something to compute in it, by weight. Admission and the turns of
// prompts are fair over time (tenant.h); what everybody waits for is the length of a step, and that is made by all rows in
// it. So where a step is bounded, a tenant with two streams finds room for them and for its prompt beside a tenant with two
// hundred, whose rows take turns.
//
// Who has had less goes first: each tenant has a level, the cost of its rows so far by weight, and a step raises the lowest
// ones until it is full. A tenant that asks for less than its part falls behind the others' level, by a few full steps at
// most: so much of a burst is computed at once, and after that it has its part like everybody else.
//
// Costs are those of prefill_cost.h; a decode row costs what a prompt token at its depth does.
//
// Thread: engine. Allocates in Begin alone, and not once it has seen the most tenants.
#ifndef HYDRANT_SCHEDULER_STEP_SHARES_H_
#define HYDRANT_SCHEDULER_STEP_SHARES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hydrant {

class StepShares {
 public:
  // A new step. Levels stay.
  void Begin(size_t tenants);
  // What a tenant could compute. REQUIRES: weight > 0.
  void SetWeight(int32_t tenant, double weight) { of(tenant).weight = weight; }
  void AddDecode(int32_t tenant, double cost) { of(tenant).decode += cost; }
  void AddPrompt(int32_t tenant, double cost) { of(tenant).prompts += cost; }

  // Divides a step that may cost `total`; nobody is further behind than `lag`. With one tenant, or when everything fits, nothing
  // is bounded. REQUIRES: total > 0, lag >= total.
  void Divide(double total, double lag);
  bool bounded() const { return bounded_; }
  // More than one tenant has something to compute.
  bool several() const { return several_; }

  // Whether the share has room for a decode row: what prompts keep of it aside, for they have to be computed some time. The
  // first row always has. REQUIRES: bounded().
  bool HasRoomForDecode(int32_t tenant, double cost) const;
  // What is left of the share for prompts. REQUIRES: bounded().
  double left(int32_t tenant) const;

  // A row, bounded or not.
  void TakeDecode(int32_t tenant, double cost);
  void TakePrompt(int32_t tenant, double cost) { Take(of(tenant), cost); }

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
    // What it gets when the levels are raised to `level`.
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

#endif  // HYDRANT_SCHEDULER_STEP_SHARES_H_
