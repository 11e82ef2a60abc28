// What CUDA and cuBLAS say, as exceptions. An error of a kernel shows at a later call, and after most of them the process
// can not use the device any more, so nobody goes on from a CudaError: the engine ends. Memory that is not to be had is none:
// it costs the requests of a step (model/run/executor.h).
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

// `call` names what was tried. Throws std::bad_alloc for memory that is not to be had, CudaError for anything else.
void CheckCuda(cudaError_t error, const char* call);
void CheckCuda(cublasStatus_t status, const char* call);

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_CUDA_RUNTIME_CUDA_ERROR_H_
