// Collective is how the ranks of a ShardedDevice put together what each has computed: a gather of columns, and nothing else. It moves
// bytes and adds nothing up, so that no bit depends on the number of ranks.
//
// Thread: Reserve, ScratchBytes and Begin the engine's, while no rank runs; Fail any rank's; the others that of their rank.
//
// Life cycle: Reserve, then, for every op that all ranks carry out, Begin; each rank calls AllGather the same number of times, or Fail.
#ifndef HYDRANT_KERNELS_PARALLEL_COLLECTIVE_H_
#define HYDRANT_KERNELS_PARALLEL_COLLECTIVE_H_

#include <cstddef>
#include <cstdint>
#include <exception>

namespace hydrant {

// Another rank failed: what this one waited for will not come.
class RankLost : public std::exception {
 public:
  const char* what() const noexcept override { return "another rank has failed"; }
};

// The columns of a dense matrix that are one rank's, in bytes of a row.
struct Columns {
  size_t rows = 0;
  size_t row_bytes = 0;
  size_t begin = 0;
  size_t end = 0;

  size_t bytes() const { return end - begin; }
};

class Collective {
 public:
  virtual ~Collective() = default;

  // Memory for parts of `part_bytes`; that of all ranks together. Throws std::bad_alloc.
  virtual void Reserve(size_t part_bytes) = 0;
  virtual int64_t ScratchBytes(size_t part_bytes) const = 0;

  // All ranks are at rest, and what one of them failed in is over.
  virtual void Begin() = 0;
  // A rank goes on no more: those that wait in AllGather, or come to it, throw RankLost.
  virtual void Fail() = 0;

  // Where the rank's part of the next AllGather belongs, in its own memory: dense rows of its columns. REQUIRES: Reserve has been told
  // of so many bytes.
  virtual void* Part(int rank, const Columns& columns) = 0;
  // Copies the rank's columns out of `whole`, in its own memory, into Part.
  virtual void TakePart(int rank, const Columns& columns, const void* whole) = 0;
  // Puts the parts of all ranks side by side into `whole`, in the rank's memory. Columns of all ranks make up a row. Throws RankLost.
  virtual void AllGather(int rank, const Columns& columns, void* whole) = 0;
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_PARALLEL_COLLECTIVE_H_
