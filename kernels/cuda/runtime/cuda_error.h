// Errors of CUDA and cuBLAS, as exceptions. An error of a kernel is reported by a later call, and after most errors the
// process cannot use the device any more, so a CudaError ends the engine. Lack of memory is no CudaError: it fails the
// requests of a step (model/run/executor.h).
#ifndef HYDRANT_KERNELS_CUDA_RUNTIME_CUDA_ERROR_H_
#define HYDRANT_KERNELS_CUDA_RUNTIME_CUDA_ERROR_H_

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace hydrant {

class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// `call` names what was tried. Throws std::bad_alloc if there is not enough memory, CudaError for any other error.
void CheckCuda(cudaError_t error, const char* call);
void CheckCuda(cublasStatus_t status, const char* call);

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CUDA_RUNTIME_CUDA_ERROR_H_
