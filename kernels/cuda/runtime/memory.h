// What CudaDevice owns: the stream, the library's handle, memory, and the way of small arrays to the device.
//
// Thread: engine.
#ifndef HYDRANT_KERNELS_CUDA_RUNTIME_MEMORY_H_
#define HYDRANT_KERNELS_CUDA_RUNTIME_MEMORY_H_

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/device.h"

namespace hydrant::cuda {

class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  operator cudaStream_t() const { return stream_; }  // NOLINT: stands for it in every call

 private:
  cudaStream_t stream_ = nullptr;
};

class BlasHandle {
 public:
  BlasHandle();
  ~BlasHandle();
  BlasHandle(const BlasHandle&) = delete;
  BlasHandle& operator=(const BlasHandle&) = delete;

  operator cublasHandle_t() const { return handle_; }  // NOLINT: stands for it in every call

 private:
  cublasHandle_t handle_ = nullptr;
};

// Not zeroed. Throws std::bad_alloc or CudaError.
class CudaBuffer final : public DeviceBuffer {
 public:
  // `host_visible`: memory of the host that the device reads and writes across the bus; for tests, which look into it.
  explicit CudaBuffer(size_t bytes, bool host_visible = false);
  ~CudaBuffer() override;

 private:
  const bool host_visible_;
};

// Copies after what the stream has, and waits: for memory that may be the host's, the device's or both's (host_visible). Throws
// CudaError.
void CopyAndWait(void* to, const void* from, size_t bytes, cudaStream_t stream);

class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  operator cudaEvent_t() const { return event_; }  // NOLINT: stands for it in every call

 private:
  cudaEvent_t event_ = nullptr;
};

class PinnedBuffer {
 public:
  explicit PinnedBuffer(size_t bytes);
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_;
};

// Sends packets of small arrays: the kernels launched after Send, and before the next one, find them at the addresses that Add
// gave.
class Uploads {
 public:
  // So many packets may be on their way: a copy waits for the kernels queued before it. Those up to `bytes` take no memory.
  Uploads(cudaStream_t stream, size_t bytes, size_t packets);
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;

  // A packet of at most `bytes`, PacketBytes() of its arrays. Waits until the packet whose place it takes has left the host;
  // memory grows when it must. A packet's addresses are those of the packet before it unless memory grew.
  void Begin(size_t bytes);
  template <typename T>
  T* Add(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kAlignment);
    const size_t at = size_;
    size_ += PacketBytes(values);
    assert(size_ <= packet().host->bytes());
    std::copy(values.begin(), values.end(), reinterpret_cast<T*>(packet().host->data() + at));
    return reinterpret_cast<T*>(static_cast<std::byte*>(device_->data()) + at);
  }
  void Send();

  template <typename T>
  static size_t PacketBytes(std::span<T> values) {
    return (values.size_bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }

 private:
  static constexpr size_t kAlignment = 16;

  struct Packet {
    std::unique_ptr<PinnedBuffer> host;
    Event sent;
  };
  const Packet& packet() const { return packets_[number_ % packets_.size()]; }

  cudaStream_t stream_;
  std::vector<Packet> packets_;         // in turn
  size_t number_ = 0;                   // of the packet in the making
  std::unique_ptr<CudaBuffer> device_;  // of all packets: the stream has them one after the other
  size_t size_ = 0;
};

}  // namespace hydrant::cuda

#endif  // HYDRANT_KERNELS_CUDA_RUNTIME_MEMORY_H_
