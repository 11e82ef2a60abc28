// Template is a parsed Jinja template that renders JSON to text, as Hugging Face's sandbox does: nothing it can say reads or
// changes anything but its inputs, and what it may take is limited.
//
// Thread: any (immutable).
#ifndef HYDRANT_MODEL_JINJA_TEMPLATE_H_
#define HYDRANT_MODEL_JINJA_TEMPLATE_H_

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/jinja/core/text.h"
#include "model/jinja/core/workspace.h"
#include "model/jinja/parse/parser.h"
#include "nlohmann/json.hpp"

namespace hydrant::jinja {

struct Variable {
  std::string_view name;
  const nlohmann::ordered_json* value = nullptr;
  Origin origin = Origin::kClient;
  // A member of the objects in an array that the caller has checked against words of its own, so that it is not the client's.
  std::string_view checked_member = {};
};

struct Rendering {
  std::string text;
  std::vector<ByteRange> client;  // what came from variables of Origin::kClient: ascending, disjoint
  int64_t steps = 0;
};

class Template {
 public:
  // kInvalidArgument: not a template, or one that reaches for other templates.
  static absl::StatusOr<Template> Parse(std::string_view source);

  // kInvalidArgument: the template called raise_exception; the status has its message.
  // kFailedPrecondition: the template does not fit these variables.
  // kResourceExhausted: it goes over the limits.
  absl::StatusOr<Rendering> Render(const std::vector<Variable>& variables, std::time_t now,
                                   const Limits& limits = {}) const;

  // Whether it asks for a variable of this name, if only in a branch. A name that it sets itself counts, that of a function that is
  // built in does not.
  bool Reads(std::string_view name) const;

 private:
  explicit Template(ParsedTemplate parsed) : parsed_(std::make_shared<const ParsedTemplate>(std::move(parsed))) {}

  std::shared_ptr<const ParsedTemplate> parsed_;
};

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_TEMPLATE_H_
