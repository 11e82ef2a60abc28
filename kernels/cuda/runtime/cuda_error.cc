#include "kernels/cuda/runtime/cuda_error.h"

#include <new>
#include <string>

namespace hydrant {

namespace {

[[noreturn]] void ThrowNoMemory() {
  static_cast<void>(cudaGetLastError());  // it is no error of the device
  throw std::bad_alloc();
}

}  // namespace

void CheckCuda(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  if (error == cudaErrorMemoryAllocation) ThrowNoMemory();
  throw CudaError(std::string(call) + ": " + cudaGetErrorName(error) + " (" + cudaGetErrorString(error) + ")");
}

void CheckCuda(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_ALLOC_FAILED) ThrowNoMemory();
  if (status != CUBLAS_STATUS_SUCCESS) throw CudaError(std::string(call) + ": " + cublasGetStatusString(status));
}

}  // namespace hydrant
