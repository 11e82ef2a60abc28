#include "api/request/request_context.h"

#include <algorithm>
#include <limits>

namespace hydrant {

std::string CheckModelField(ObjectReader* request, const RequestContext& context) {
  if (!request->Has("model") || context.model_names.empty()) return "";
  // A name of any length is a name; one that is not ours is 404, not 400.
  std::string name = request->String("model", "", std::numeric_limits<size_t>::max(), /*identifier=*/true);
  if (request->failed()) return "";
  const std::vector<std::string>& names = context.model_names;
  const bool is_one = std::find(names.begin(), names.end(), name) != names.end() ||
                      (context.is_other_model != nullptr && context.is_other_model(name));
  if (!is_one) request->FailWith(ModelNotFound(names.front()));
  return name;
}

}  // namespace hydrant
