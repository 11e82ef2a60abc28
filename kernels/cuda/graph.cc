#include "kernels/cuda/graph.h"

#include <algorithm>
#include <new>

#include "kernels/cuda/runtime/cuda_error.h"

namespace hydrant::cuda {

Graph::Graph(cudaStream_t stream, const std::function<void()>& work) {
  CheckCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    work();
  } catch (...) {
    // The stream must not stay in recording, whatever comes of it.
    static_cast<void>(cudaStreamEndCapture(stream, &graph));
    static_cast<void>(cudaGetLastError());  // of a recording that is no more
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
    throw;
  }
  CheckCuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  const cudaError_t error = cudaGraphInstantiate(&executable_, graph, 0);
  static_cast<void>(cudaGraphDestroy(graph));
  CheckCuda(error, "cudaGraphInstantiate");
}

Graph::~Graph() { static_cast<void>(cudaGraphExecDestroy(executable_)); }

void Graph::Launch(cudaStream_t stream) { CheckCuda(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch"); }

void GraphCache::Run(cudaStream_t stream, const Key& key, const std::function<void()>& work) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.key == key; });
  if (found == entries_.end()) {
    work();
    // A graph that is still running may be dropped: its memory stays until it is done.
    if (entries_.size() == kEntriesMax) entries_.pop_back();
    entries_.push_front({key, nullptr});
    return;
  }
  entries_.splice(entries_.begin(), entries_, found);
  Entry& entry = entries_.front();
  if (entry.graph == nullptr && rest_ > 0) {
    --rest_;
    return work();
  }
  try {
    if (entry.graph == nullptr) entry.graph = std::make_unique<Graph>(stream, work);
    return entry.graph->Launch(stream);
  } catch (const std::bad_alloc&) {
    // No memory is left for graphs, which only save time.
    entry.graph.reset();
    rest_ = kRest;
  }
  work();
}

size_t GraphCache::size() const {
  return static_cast<size_t>(
      std::count_if(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.graph != nullptr; }));
}

}  // namespace hydrant::cuda
