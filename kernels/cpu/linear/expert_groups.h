// ExpertGroups sorts the rows of a matrix by the experts that they choose, so that each expert's weights are read once for all
// of its rows. ChooseExperts is a row's choice.
//
// Thread: engine; ChooseExperts: any.
//
// Invariants
//  1. An entry is a row's share in one expert. Entries of an expert follow each other by ascending row, experts by ascending
//     number.
//  2. Memory is bounded by rows * per_row entries and `experts` groups, all of it reserved before the first step.
#ifndef HYDRANT_KERNELS_CPU_LINEAR_EXPERT_GROUPS_H_
#define HYDRANT_KERNELS_CPU_LINEAR_EXPERT_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/device.h"

namespace hydrant {

struct ChosenExpert {
  int32_t expert = 0;
  float weight = 0;
};

// A row's choice among logits [experts] by the rule of ExpertRouting -> chosen [per_row], the largest logit first. A NaN counts
// as the smallest. REQUIRES: 0 < chosen.size() <= logits.size().
void ChooseExperts(std::span<const float> logits, bool normalised, std::span<ChosenExpert> chosen);

class ExpertGroups {
 public:
  // The entries [first, first + rows) of an expert that was chosen; rows >= 1.
  struct Group {
    int32_t expert = 0;
    int64_t first = 0;
    int64_t rows = 0;
  };

  void Reserve(int64_t rows_max, int64_t per_row, int64_t experts);
  // Bytes that Reserve takes.
  static size_t Bytes(int64_t rows_max, int64_t per_row, int64_t experts);

  // chosen [rows][per_row], the experts of a row all different. REQUIRES: no more than what was reserved; allocates nothing.
  void Sort(std::span<const ChosenExpert> chosen, int64_t per_row, int64_t experts);

  std::span<const Group> groups() const { return groups_; }
  // By entry: its row of the matrix, and the weight of the expert there.
  std::span<const int32_t> rows() const { return rows_; }
  std::span<const float> weights() const { return weights_; }

 private:
  std::vector<int64_t> next_;  // [experts]: how many entries it has, then where its next one goes
  std::vector<Group> groups_;
  std::vector<int32_t> rows_;
  std::vector<float> weights_;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CPU_LINEAR_EXPERT_GROUPS_H_
