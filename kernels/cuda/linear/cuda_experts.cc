#include <cassert>
#include <utility>
#include <vector>

#include "kernels/cuda/linear/cuda_linear.h"
#include "kernels/cuda/linear/experts.h"

namespace hydrant::cuda {

CudaExperts::CudaExperts(Matrices up_matrices, Matrices down_matrices, bool host_visible, cudaStream_t stream)
    : Experts(std::move(up_matrices), std::move(down_matrices)),
      views_(2 * up().size() * sizeof(WeightView), host_visible) {
  std::vector<WeightView> views;
  for (const Matrices* matrices : {&up(), &down()}) {
    for (const auto& matrix : *matrices) {
      views.push_back(static_cast<const CudaLinear&>(*matrix).view());
      assert(views.back().dtype == views.front().dtype);
    }
  }
  CopyAndWait(views_.data(), views.data(), views.size() * sizeof(WeightView), stream);
}

}  // namespace hydrant::cuda
