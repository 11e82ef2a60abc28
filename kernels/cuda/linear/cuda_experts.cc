#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>
#include <vector>

#include "kernels/cuda/linear/cuda_linear.h"
#include "kernels/cuda/linear/experts.h"

namespace hydrant::cuda {

CudaExperts::CudaExperts(Matrices up_matrices, Matrices down_matrices, bool host_visible, cudaStream_t stream)
    : Experts(std::move(up_matrices), std::move(down_matrices)),
      matrices_(2 * up().size() * sizeof(ExpertMatrix), host_visible) {
  std::vector<ExpertMatrix> on_device;
  for (const bool is_up : {true, false}) {
    std::vector<WeightFormat>& formats = is_up ? up_formats_ : down_formats_;
    for (const auto& matrix : is_up ? up() : down()) {
      const auto& linear = static_cast<const CudaLinear&>(*matrix);
      ExpertMatrix& to = on_device.emplace_back();
      if (!linear.packed()) to.dense = linear.view();
      assert(linear.parts().size() <= std::size(to.packed));
      std::copy(linear.parts().begin(), linear.parts().end(), to.packed);
      assert(!linear.packed() || linear.parts().front().format == linear.parts().back().format);
      const WeightFormat format = linear.packed() ? to.packed[0].format : FormatOf(to.dense.dtype);
      if (std::find(formats.begin(), formats.end(), format) == formats.end()) formats.push_back(format);
    }
  }
  CopyAndWait(matrices_.data(), on_device.data(), on_device.size() * sizeof(ExpertMatrix), stream);
}

}  // namespace hydrant::cuda
