// What a client is told of a schema or expression that cannot be enforced.
//
// Thread: any (pure function).
#ifndef HYDRANT_SERVER_SHAPES_SHAPE_REFUSAL_H_
#define HYDRANT_SERVER_SHAPES_SHAPE_REFUSAL_H_

#include "api/request/constraint.h"
#include "api/wire/api_error.h"
#include "model/grammar/refusal.h"

namespace hydrant {

// A 400. `constraint`: what was compiled; its field becomes the error's `param`, or "tools" where one of them is what cannot be kept.
ApiError RefusalError(const grammar::Refusal& refusal, const Constraint& constraint);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SHAPES_SHAPE_REFUSAL_H_
