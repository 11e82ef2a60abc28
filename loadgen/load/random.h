// Random numbers that are the same everywhere: neither the standard library's distributions, which differ between
// libraries, nor an order of calls decides what a seed means.
//
// Thread: any (an instance belongs to one caller).
#ifndef HYDRANT_LOADGEN_LOAD_RANDOM_H_
#define HYDRANT_LOADGEN_LOAD_RANDOM_H_

#include <cstdint>

namespace hydrant {

class Random {
 public:
  // Item `index` of stream `stream` of a seed: request 17's text does not depend on how request 16 was made.
  explicit Random(uint64_t seed, uint64_t stream = 0, uint64_t index = 0);

  uint64_t Next();
  // In [0, 1).
  double Uniform();
  // In [low, high]. REQUIRES: low <= high.
  int64_t Integer(int64_t low, int64_t high);
  // Mean 0, deviation 1.
  double Normal();
  // Mean 1.
  double Exponential();
  // Mean shape * scale (Marsaglia and Tsang, 2000). REQUIRES: shape > 0.
  double Gamma(double shape, double scale);

 private:
  uint64_t state_;
};

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_LOAD_RANDOM_H_
