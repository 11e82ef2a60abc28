// ForeignFlags are the flags of other servers that people bring along, and what to do here instead: of most of them the nearest name
// of ours does something else.
//
// Thread: any (constants).
#ifndef HYDRANT_SERVER_FOREIGN_FLAGS_H_
#define HYDRANT_SERVER_FOREIGN_FLAGS_H_

#include <span>

#include "api/wire/nearest_name.h"

namespace hydrant {

// By name. None is a flag of ours.
std::span<const FlagAdvice> ForeignFlags();

}  // namespace hydrant

#endif  // HYDRANT_SERVER_FOREIGN_FLAGS_H_
