// The host side of tests/simt/include.
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "cublas_v2.h"
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_runtime.h"

using Work = std::function<void()>;
struct SimtGraph {
  std::vector<Work> work;
};
struct SimtStream {
  SimtGraph* recording = nullptr;
  std::deque<Work> queue;
  uint64_t queued = 0;  // since the start
  uint64_t done = 0;
};
struct SimtEvent {
  SimtStream* stream = nullptr;  // null: not recorded
  uint64_t place = 0;            // of its stream's queue
};
struct SimtBlas {
  cudaStream_t stream = nullptr;
};

namespace hydrant::simt {
namespace {

int fail_after = -1;
cudaError_t fail_with = cudaSuccess;
cudaError_t failed = cudaSuccess;                   // a device that failed stays so
using Memory = std::map<const std::byte*, size_t>;  // begin, bytes
Memory device_memory, pinned_memory;
std::set<SimtStream*> streams;
int64_t waits = 0;

// Does what is in the stream up to `place`.
void WaitFor(SimtStream& stream, uint64_t place) {
  waits += stream.done < place ? 1 : 0;
  while (stream.done < place) {
    const Work work = std::move(stream.queue.front());
    stream.queue.pop_front();
    ++stream.done;
    work();
  }
}

void WaitForAll() {
  for (SimtStream* stream : streams) WaitFor(*stream, stream->queued);
}

bool Holds(const Memory& memory, const void* data) {
  const auto behind = memory.upper_bound(static_cast<const std::byte*>(data));
  if (behind == memory.begin()) return false;
  const auto& [begin, bytes] = *std::prev(behind);
  return static_cast<const std::byte*>(data) < begin + bytes;
}

void* TakeMemory(size_t bytes) {
  // As on a device, new memory holds anything.
  void* data = bytes > size_t{1} << 40 ? nullptr : std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (data != nullptr) std::memset(data, 0xff, bytes);
  return data;
}

bool IsCopy(cudaMemcpyKind kind, const void* to, const void* from) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return Holds(device_memory, to) && !Holds(device_memory, from);
    case cudaMemcpyDeviceToHost:
      return !Holds(device_memory, to) && Holds(device_memory, from);
    case cudaMemcpyDeviceToDevice:
      return Holds(device_memory, to) && Holds(device_memory, from);
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

// Memory of the host that the device does not reach by itself is copied while the caller waits.
bool IsPageable(const void* data) { return !Holds(device_memory, data) && !Holds(pinned_memory, data); }

}  // namespace

size_t DeviceBytes() {
  size_t sum = 0;
  for (const auto& [data, bytes] : device_memory) sum += bytes;
  return sum;
}

int64_t Waits() { return waits; }

void FailAfter(int calls, cudaError_t error) {
  fail_after = calls;
  fail_with = error;
  failed = cudaSuccess;
}

bool EndFailures() {
  const bool happened = fail_with != cudaSuccess && fail_after < 0;
  FailAfter(-1, cudaSuccess);
  return happened;
}

cudaError_t NextResult() {
  if (failed != cudaSuccess) return failed;
  if (fail_after < 0 || fail_after-- > 0) return cudaSuccess;
  // Memory that is not to be had is no end; everything else is.
  if (fail_with != cudaErrorMemoryAllocation) failed = fail_with;
  return fail_with;
}

// The result of a call that takes no memory.
cudaError_t NextResultWithoutMemory() {
  const bool starves = fail_after == 0 && fail_with == cudaErrorMemoryAllocation;
  return starves ? failed : NextResult();
}

void Enqueue(cudaStream_t stream, std::function<void()> work) {
  if (stream == nullptr) {
    work();  // the one of those that have none, where everybody waits
  } else if (stream->recording != nullptr) {
    stream->recording->work.push_back(std::move(work));
  } else {
    stream->queue.push_back(std::move(work));
    ++stream->queued;
  }
}

}  // namespace hydrant::simt

using hydrant::simt::Enqueue;
using hydrant::simt::NextResult;
using hydrant::simt::NextResultWithoutMemory;

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
  }
  return "unknown";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return NextResult();
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "SIMT on the host");
  properties->multiProcessorCount = 4;
  properties->major = 9;
  properties->totalGlobalMem = size_t{4} << 30;
  properties->sharedMemPerBlockOptin = hydrant::simt::kDynamicSharedBytes;
  return NextResult();
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMemoryClockRate ? 1000000 : attribute == cudaDevAttrGlobalMemoryBusWidth ? 512 : 9;
  return NextResult();
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = size_t{4} << 30;
  return NextResult();
}
cudaError_t cudaMalloc(void** data, size_t bytes) {
  if (const cudaError_t error = NextResult(); error != cudaSuccess) return error;
  *data = hydrant::simt::TakeMemory(bytes);
  if (*data == nullptr) return cudaErrorMemoryAllocation;
  hydrant::simt::device_memory.emplace(static_cast<std::byte*>(*data), bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  hydrant::simt::WaitForAll();
  hydrant::simt::device_memory.erase(static_cast<std::byte*>(data));
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  if (const cudaError_t error = NextResult(); error != cudaSuccess) return error;
  *data = hydrant::simt::TakeMemory(bytes);
  if (*data == nullptr) return cudaErrorMemoryAllocation;
  hydrant::simt::pinned_memory.emplace(static_cast<std::byte*>(*data), bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  hydrant::simt::WaitForAll();
  hydrant::simt::pinned_memory.erase(static_cast<std::byte*>(data));
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (const cudaError_t error = NextResult(); error != cudaSuccess) return error;
  // A device would allow it; here it is a mistake: the host's memory holds something else when the graph runs.
  if (stream->recording != nullptr && kind != cudaMemcpyDeviceToDevice) return cudaErrorStreamCaptureUnsupported;
  // So it is here: of a device nothing is known where the kind says another direction than the addresses.
  if (bytes > 0 && !hydrant::simt::IsCopy(kind, to, from)) return cudaErrorInvalidValue;
  const bool waits = hydrant::simt::IsPageable(from) || hydrant::simt::IsPageable(to);
  Enqueue(stream, [=] {
    if (bytes > 0) std::memmove(to, from, bytes);
  });
  if (waits) hydrant::simt::WaitFor(*stream, stream->queued);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = NextResult(); error != cudaSuccess) return error;
  Enqueue(stream, [=] {
    if (bytes > 0) std::memset(data, value, bytes);
  });
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new SimtStream;
  hydrant::simt::streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  hydrant::simt::WaitFor(*stream, stream->queued);
  hydrant::simt::streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream->recording != nullptr) return cudaErrorStreamCaptureUnsupported;
  if (const cudaError_t error = NextResultWithoutMemory(); error != cudaSuccess) return error;
  hydrant::simt::WaitFor(*stream, stream->queued);
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new SimtEvent;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  *event = {stream, stream->queued};
  return NextResultWithoutMemory();
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const cudaError_t error = NextResultWithoutMemory(); error != cudaSuccess) return error;
  if (event->stream != nullptr) hydrant::simt::WaitFor(*event->stream, event->place);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  *ms = 1.0f;
  return begin->stream != nullptr && begin->stream == end->stream ? NextResult() : cudaErrorInvalidValue;
}
cudaError_t cudaGetLastError() { return hydrant::simt::failed; }

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream->recording != nullptr) return cudaErrorStreamCaptureUnsupported;
  if (const cudaError_t error = NextResult(); error != cudaSuccess) return error;
  stream->recording = new SimtGraph;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = std::exchange(stream->recording, nullptr);
  const cudaError_t error = NextResult();
  if (error != cudaSuccess) delete std::exchange(*graph, nullptr);
  return error;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  if (const cudaError_t error = NextResult(); error != cudaSuccess) return error;
  *executable = new SimtGraph(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  if (const cudaError_t error = NextResult(); error != cudaSuccess) return error;
  for (const Work& work : executable->work) Enqueue(stream, work);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) { return cudaGraphDestroy(executable); }

const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_EXECUTION_FAILED";
}
cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = new SimtBlas;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace(cublasHandle_t, void*, size_t) { return CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                            const void* alpha, const void* a, cudaDataType a_type, int lda, const void* b,
                            cudaDataType b_type, int ldb, const void* beta, void* c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t) {
  if (const cudaError_t error = NextResult(); error != cudaSuccess) {
    return error == cudaErrorMemoryAllocation ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_EXECUTION_FAILED;
  }
  if (a_type != b_type || c_type != CUDA_R_32F || compute != CUBLAS_COMPUTE_32F) return CUBLAS_STATUS_INVALID_VALUE;
  if (lda < (op_a == CUBLAS_OP_N ? m : k) || ldb < (op_b == CUBLAS_OP_N ? k : n) || ldc < m) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const float scale = *static_cast<const float*>(alpha), keep = *static_cast<const float*>(beta);
  Enqueue(handle->stream, [=] {
    const auto at = [](const void* data, cudaDataType type, int64_t i) {
      if (type == CUDA_R_32F) return static_cast<const float*>(data)[i];
      if (type == CUDA_R_16F) return __half2float(static_cast<const __half*>(data)[i]);
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
    };
    auto* out = static_cast<float*>(c);
    for (int64_t col = 0; col < n; ++col) {
      for (int64_t row = 0; row < m; ++row) {
        float sum = 0.0f;
        for (int64_t i = 0; i < k; ++i) {
          sum += at(a, a_type, op_a == CUBLAS_OP_N ? i * lda + row : row * lda + i) *
                 at(b, b_type, op_b == CUBLAS_OP_N ? col * ldb + i : i * ldb + col);
        }
        float& y = out[col * ldc + row];
        y = scale * sum + (keep == 0.0f ? 0.0f : keep * y);
      }
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}
