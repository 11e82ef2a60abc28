#include "model/jinja/template.h"

#include <utility>

#include "absl/status/status.h"
#include "model/jinja/core/builtins.h"
#include "model/jinja/core/fault.h"
#include "model/jinja/core/interpreter.h"
#include "model/jinja/library/from_json.h"
#include "model/text/str_cat.h"

namespace hydrant::jinja {
namespace {

absl::Status StatusOf(const Fault& fault, int line) {
  const std::string message = StrCat(fault.message, " (line ", line, ")");
  switch (fault.kind) {
    case FaultKind::kRaised:
      return absl::InvalidArgumentError(fault.message);
    case FaultKind::kData:
      return absl::FailedPreconditionError(message);
    case FaultKind::kLimit:
    case FaultKind::kSyntax:
      return absl::ResourceExhaustedError(message);
  }
  return absl::InternalError(message);
}

}  // namespace

absl::StatusOr<Template> Template::Parse(std::string_view source) {
  try {
    return Template(ParseTemplate(source));
  } catch (const Fault& fault) {
    return absl::InvalidArgumentError(fault.message);
  }
}

absl::StatusOr<Rendering> Template::Render(const std::vector<Variable>& variables, std::time_t now,
                                           const Limits& limits) const {
  Workspace workspace(limits);
  Interpreter interpreter(workspace, now);
  try {
    for (const Variable& variable : variables) {
      interpreter.SetGlobal(variable.name, FromJson(*variable.value, variable.origin, variable.checked_member));
    }
    Text text = interpreter.Run(parsed_->body);
    std::vector<ByteRange> client = text.client();
    return Rendering{std::move(text).TakeBytes(), std::move(client), workspace.steps()};
  } catch (const Fault& fault) {
    return StatusOf(fault, interpreter.line());
  }
}

bool Template::Reads(std::string_view name) const {
  Workspace workspace((Limits()));
  return parsed_->names.contains(name) && FindFunction(workspace, name).is_undefined();
}

}  // namespace hydrant::jinja
