// Epilogue says what a product does with its sums before it stores them.
//
// Thread: any (constants).
#ifndef HYDRANT_KERNELS_EPILOGUE_H_
#define HYDRANT_KERNELS_EPILOGUE_H_

#include <cstdint>

namespace hydrant {

// s: the sums x W^T. A gated weight has two for each output (LinearSpec::gated). factor: what an activation makes of the up
// projection beside it (Activation).
enum class Epilogue : uint8_t {
  kStore,       // y = s + bias
  kAccumulate,  // y += s + bias
  kActivate,    // y = activation(s + bias)
  kGate,        // y = activation(gate + bias) * factor(up + bias)
  kScale,       // y *= factor(s + bias): what kGate does where gate and up are computed one after the other
};

}  // namespace hydrant

#endif  // HYDRANT_KERNELS_EPILOGUE_H_
