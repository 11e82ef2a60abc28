#include "kernels/cuda/cuda_error.h"

#include <new>
#include <string>

namespace hydrant {

void CheckCuda(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // it is no error of the device
    throw std::bad_alloc();
  }
  throw CudaError(std::string(call) + ": " + cudaGetErrorName(error) + " (" + cudaGetErrorString(error) + ")");
}

void CheckCuda(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw std::bad_alloc();
  if (status != CUBLAS_STATUS_SUCCESS) throw CudaError(std::string(call) + ": " + cublasGetStatusString(status));
}

}  // namespace hydrant
