// RowSplit says which rows of a weight are one rank's: of the outputs an equal share, of queries, keys and values those of its
// heads, of a gate and its up projection the same ones. Every row has all of its columns, so each output is summed up as it
// would be by one rank.
//
// Thread: any; immutable.
#ifndef HYDRANT_KERNELS_PARALLEL_ROW_SPLIT_H_
#define HYDRANT_KERNELS_PARALLEL_ROW_SPLIT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/device.h"

namespace hydrant {

// [begin, end)
struct Share {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
};

// Part `rank` of [0, count): parts differ by one at most.
constexpr Share ShareOf(int64_t count, int rank, int ranks) {
  return {count * rank / ranks, count * (rank + 1) / ranks};
}

class RowSplit {
 public:
  // REQUIRES: each rank gets a row of every section, and the same number of rows of keys.
  RowSplit(const LinearSpec& whole, int rank, int ranks);

  // The rank's rows, as a weight of their own.
  const LinearSpec& spec() const { return spec_; }
  // The columns that its product has of the whole one's; of queries, keys and values they are not adjacent, and these are as many.
  Share outputs() const { return outputs_; }

  // The rank's part of what is given for the whole weight. An empty bias stays empty.
  WeightRows RowsOf(const WeightRows& whole) const;
  std::vector<float> BiasOf(std::span<const float> whole) const;

 private:
  LinearSpec spec_;
  std::vector<LinearPart> whole_parts_;
  std::vector<Share> sections_;  // rows of the whole weight, one after the other those of the rank's
  Share outputs_;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_PARALLEL_ROW_SPLIT_H_
