// Request fields that this server knows and cannot honour yet. Each is still checked (a value out of range is a 400
// that says so) and refused with code "unsupported" unless its value is neutral, that is, unless leaving it out would
// give the same answer. Nothing a client asked for is dropped in silence.
//
// Thread: any (pure function).
#ifndef HYDRANT_API_REFUSED_FIELDS_H_
#define HYDRANT_API_REFUSED_FIELDS_H_

#include "api/completion_request.h"
#include "api/object_reader.h"

namespace hydrant {

// Sets request's error at the first field that is wrong or refused.
void RefuseUnsupportedFields(ObjectReader* request, const RequestContext& context);

}  // namespace hydrant

#endif  // HYDRANT_API_REFUSED_FIELDS_H_
