// CUDA graphs: what one forward pass launches, recorded once per shape of the step and launched again as one.
//
// Thread: engine.
#ifndef HYDRANT_KERNELS_CUDA_GRAPH_H_
#define HYDRANT_KERNELS_CUDA_GRAPH_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>

#include "kernels/cuda/step_table.h"

namespace hydrant::cuda {

class Graph {
 public:
  // Records what `work` queues on the stream; nothing of it runs. `work` neither waits nor allocates. Throws CudaError, or
  // what `work` throws.
  Graph(cudaStream_t stream, const std::function<void()>& work);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void Launch(cudaStream_t stream);

 private:
  cudaGraphExec_t executable_ = nullptr;
};

// Runs work that is the same whenever its key is. The first time it runs as it is, which lets libraries load what they need;
// the second time it is recorded. Where the device has no memory for a graph, this and the next kRest runs without one are as
// the first.
class GraphCache {
 public:
  struct Key {
    const void* program = nullptr;  // what `work` does
    StepShape shape;

    bool operator==(const Key&) const = default;
  };

  void Run(cudaStream_t stream, const Key& key, const std::function<void()>& work);

  // Drops what is recorded: the addresses that it names are no longer those of `work`. None of it may be running.
  void Clear() { entries_.clear(); }

  // Graphs recorded and not yet dropped.
  size_t size() const;

  // The least recently used entry goes when there are more. A graph takes some kilobytes per kernel.
  static constexpr size_t kEntriesMax = 96;

  // Recording for nothing takes as long as some steps.
  static constexpr int32_t kRest = 256;

 private:
  struct Entry {
    Key key;
    std::unique_ptr<Graph> graph;  // null: seen once
  };
  std::list<Entry> entries_;  // most recently used first
  int32_t rest_ = 0;          // runs until the next try to record
};

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_GRAPH_H_
