// WeightPieces is where the packed bytes of weights are that are not all in memory at once: cut into pieces, each with an address of its
// own, which others have, too. A device that is given a piece's number asks for it before it multiplies.
#ifndef HYDRANT_KERNELS_WEIGHT_PIECES_H_
#define HYDRANT_KERNELS_WEIGHT_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>

namespace hydrant {

// A piece could not be had: the step is lost, and the next one may begin. Whatever undoes a step for want of memory undoes it for this,
// too, so it is a std::bad_alloc; who answers for it tells them apart.
class WeightsLost : public std::bad_alloc {
 public:
  explicit WeightsLost(std::string why) : why_(std::make_shared<const std::string>(std::move(why))) {}
  const char* what() const noexcept override { return why_->c_str(); }

 private:
  std::shared_ptr<const std::string> why_;  // copies do not throw
};

// Thread: engine, but for address().
class WeightPieces {
 public:
  virtual ~WeightPieces() = default;

  // Where the piece lies whenever it is in memory: a multiple of 64. Never changes.
  virtual std::byte* address(int32_t piece) const = 0;

  // Waits until the piece is at its address, where it stays until the next call. A pass over the weights asks for their pieces in the
  // order of their numbers; after any other piece than the next ones there is more to wait for. Throws WeightsLost.
  virtual void Want(int32_t piece) = 0;

  // Bytes [begin, begin + bytes) of a piece, wherever it is, until the next call. Throws WeightsLost. REQUIRES: bytes <= part_bytes_max.
  virtual const std::byte* Part(int32_t piece, int64_t begin, int64_t bytes) = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_WEIGHT_PIECES_H_
