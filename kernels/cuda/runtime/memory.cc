#include "kernels/cuda/runtime/memory.h"

#include "kernels/cuda/runtime/cuda_error.h"

namespace hydrant::cuda {
namespace {

void* Take(size_t bytes, bool host_visible) {
  void* data = nullptr;
  const size_t some = std::max<size_t>(bytes, 16);  // an address even where nothing is wanted
  if (host_visible) {
    CheckCuda(cudaHostAlloc(&data, some, cudaHostAllocMapped), "cudaHostAlloc");
  } else {
    CheckCuda(cudaMalloc(&data, some), "cudaMalloc");
  }
  return data;
}

}  // namespace

// A destructor cannot report an error; the next call does.
Stream::Stream() { CheckCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"); }
Stream::~Stream() { static_cast<void>(cudaStreamDestroy(stream_)); }

BlasHandle::BlasHandle() { CheckCuda(cublasCreate(&handle_), "cublasCreate"); }
BlasHandle::~BlasHandle() { static_cast<void>(cublasDestroy(handle_)); }

CudaBuffer::CudaBuffer(size_t bytes, bool host_visible)
    : DeviceBuffer(Take(bytes, host_visible), bytes), host_visible_(host_visible) {}
CudaBuffer::~CudaBuffer() { static_cast<void>(host_visible_ ? cudaFreeHost(data_) : cudaFree(data_)); }

void CopyAndWait(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  CheckCuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
  CheckCuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

Event::Event() { CheckCuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate"); }
Event::~Event() { static_cast<void>(cudaEventDestroy(event_)); }

PinnedBuffer::PinnedBuffer(size_t bytes) : bytes_(bytes) {
  void* data = nullptr;
  CheckCuda(cudaHostAlloc(&data, std::max<size_t>(bytes, 16), cudaHostAllocDefault), "cudaHostAlloc");
  data_ = static_cast<std::byte*>(data);
}
PinnedBuffer::~PinnedBuffer() { static_cast<void>(cudaFreeHost(data_)); }

Uploads::Uploads(cudaStream_t stream, size_t bytes, size_t packets)
    : stream_(stream), packets_(packets), device_(std::make_unique<CudaBuffer>(bytes)) {
  for (Packet& packet : packets_) packet.host = std::make_unique<PinnedBuffer>(bytes);
}

void Uploads::Begin(size_t bytes) {
  size_ = 0;
  ++number_;
  CheckCuda(cudaEventSynchronize(packet().sent), "cudaEventSynchronize");
  const size_t more = bytes + bytes / 2;
  if (bytes > device_->bytes()) {
    // The kernels that read what was sent come first.
    CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    device_ = std::make_unique<CudaBuffer>(more);
  }
  std::unique_ptr<PinnedBuffer>& host = packets_[number_ % packets_.size()].host;
  if (bytes > host->bytes()) host = std::make_unique<PinnedBuffer>(more);
}

void Uploads::Send() {
  CheckCuda(cudaMemcpyAsync(device_->data(), packet().host->data(), size_, cudaMemcpyHostToDevice, stream_),
            "cudaMemcpyAsync");
  CheckCuda(cudaEventRecord(packet().sent, stream_), "cudaEventRecord");
}

}  // namespace hydrant::cuda
