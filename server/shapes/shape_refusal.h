// What a client is told of a schema or expression that cannot be enforced.
//
// Thread: any (pure function).
#ifndef HYDRANT_SERVER_SHAPES_SHAPE_REFUSAL_H_
#define HYDRANT_SERVER_SHAPES_SHAPE_REFUSAL_H_

#include <string_view>

#include "api/wire/api_error.h"
#include "model/grammar/refusal.h"

namespace hydrant {

// A 400. `field`: the path of what was compiled, which becomes its `param`.
ApiError RefusalError(const grammar::Refusal& refusal, std::string_view field);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SHAPES_SHAPE_REFUSAL_H_
