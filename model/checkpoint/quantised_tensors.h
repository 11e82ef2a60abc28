// JoinQuantised makes one matrix of the tensors in which a quantised Hugging Face directory stores it.
//
// Thread: any (pure).
#ifndef HYDRANT_MODEL_CHECKPOINT_QUANTISED_TENSORS_H_
#define HYDRANT_MODEL_CHECKPOINT_QUANTISED_TENSORS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model/checkpoint/hf_quantization.h"
#include "model/files/raw_tensor.h"

namespace hydrant {

// In the place of `x.qweight`, `x.scales` and their like (hf_quantization.h) there is `x.weight` [out, in] then, in the quantised
// format that holds it exactly, else in fp32 with a warning that says why. Nothing is converted yet: rows are put together when
// they are read. Tensors of any other kind stay. Errors name file and tensor: one is missing, of another type or shape; a zero
// point or a group's number is out of range.
absl::Status JoinQuantised(const HfQuantization& quantization, std::vector<RawTensor>& tensors,
                           std::vector<std::string>& warnings);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CHECKPOINT_QUANTISED_TENSORS_H_
