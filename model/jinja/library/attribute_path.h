// AttributePath is what filters such as map(attribute="function.name") look up in each item.
//
// Thread: the one that renders.
#ifndef HYDRANT_MODEL_JINJA_LIBRARY_ATTRIBUTE_PATH_H_
#define HYDRANT_MODEL_JINJA_LIBRARY_ATTRIBUTE_PATH_H_

#include <vector>

#include "model/jinja/core/value.h"

namespace hydrant::jinja {

class AttributePath {
 public:
  // An undefined or none attribute is the item itself.
  // Where a step leads to nothing, `fallback` goes on in its place unless it is undefined or none.
  AttributePath(Workspace& workspace, const Value& attribute, Value fallback = Value());
  Value Get(Workspace& workspace, const Value& item) const;

 private:
  Values keys_;
  const Value fallback_;
};

// A string in lower case where case does not count; anything else as it is.
Value SortKey(Workspace& workspace, const Value& value, bool case_sensitive);

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_LIBRARY_ATTRIBUTE_PATH_H_
