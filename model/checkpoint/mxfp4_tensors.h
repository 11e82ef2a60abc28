// JoinMxfp4 makes one matrix per expert of the two tensors in which a directory in MXFP4 stores all of a layer's.
//
// Thread: any (pure).
#ifndef HYDRANT_MODEL_CHECKPOINT_MXFP4_TENSORS_H_
#define HYDRANT_MODEL_CHECKPOINT_MXFP4_TENSORS_H_

#include <vector>

#include "absl/status/status.h"
#include "model/files/raw_tensor.h"

namespace hydrant {

// In the place of `a.x_blocks` [experts, rows, cols / 32, 16] and `a.x_scales` [experts, rows, cols / 32] there are `a.0.x`,
// `a.1.x`, … [rows, cols] then, in MXFP4: what files call an expert that has tensors of its own. Rows are put together when they
// are read. Errors name file and tensor: one is missing, of another type or shape; there are none, more experts than a layer may
// have, or tensors of such a name already.
absl::Status JoinMxfp4(std::vector<RawTensor>& tensors);

}  // namespace hydrant

#endif  // HYDRANT_MODEL_CHECKPOINT_MXFP4_TENSORS_H_
