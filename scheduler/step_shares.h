// StepShares divides a step between the tenants that have something to compute in it, by weight. Admission and the turns of
// prompts are fair over time (tenant.h); what everybody waits for is the length of a step, and that is made by all rows in
// it. So where a step is bounded, a tenant with two streams finds room for them and for its prompt beside a tenant with two
// hundred, whose rows take turns.
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
  void Begin(size_t tenants);
  // What a tenant could compute.
  void AddDecode(int32_t tenant, double cost);
  void AddPrompt(int32_t tenant, double cost);

  // Divides `total` between them: everybody gets what it could compute, or as much as anybody else per weight. With one
  // tenant, or when everything fits, nothing is bounded. `weight_of(tenant)` > 0.
  template <typename WeightOf>
  void Divide(double total, WeightOf&& weight_of) {
    for (size_t i = 0; i < shares_.size(); ++i) shares_[i].weight = weight_of(static_cast<int32_t>(i));
    Divide(total);
  }
  bool bounded() const { return bounded_; }

  // REQUIRES: bounded(). Takes the cost of a decode row out of the tenant's share; false when there is none left. The first row
  // is always there, and prompts keep a part of the share.
  bool TakeDecode(int32_t tenant, double cost);
  // What is left of the share for prompts.
  double left(int32_t tenant) const;
  void TakePrompt(int32_t tenant, double cost);

 private:
  struct Share {
    double weight = 0.0;
    double decode = 0.0;   // could be computed
    double prompts = 0.0;  // could be computed
    double granted = 0.0;
    double taken = 0.0;
    bool has_row = false;
    double wanted() const { return decode + prompts; }
  };
  void Divide(double total);

  std::vector<Share> shares_;  // [tenant]
  bool bounded_ = false;
};

}  // namespace hydrant

#endif  // HYDRANT_SCHEDULER_STEP_SHARES_H_
