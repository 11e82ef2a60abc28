#include "model/jinja/library/attribute_path.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "model/jinja/core/numbers.h"
#include "model/jinja/core/operators.h"
#include "model/jinja/core/workspace.h"
#include "model/jinja/library/letter_case.h"

namespace hydrant::jinja {

AttributePath::AttributePath(Workspace& workspace, const Value& attribute, Value fallback)
    : keys_(workspace), fallback_(std::move(fallback)) {
  if (attribute.is_undefined() || attribute.is_none()) return;
  if (!attribute.is_string()) {
    keys_.push_back(attribute);
    return;
  }
  std::string_view rest = attribute.view();
  workspace.StepBytes(rest.size());
  for (;;) {
    workspace.Step();
    const size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, dot);
    const bool is_index =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return absl::ascii_isdigit(c); });
    const auto index = is_index ? ParseInt(part, 10) : std::nullopt;
    keys_.push_back(index ? *index : workspace.String(std::string(part)));
    if (dot == rest.size()) return;
    rest.remove_prefix(dot + 1);
  }
}

Value AttributePath::Get(Workspace& workspace, const Value& item) const {
  Value value = item;
  for (const Value& key : keys_) {
    value = Subscript(workspace, value, key);
    if (value.is_undefined() && !fallback_.is_undefined() && !fallback_.is_none()) value = fallback_;
  }
  return value;
}

Value SortKey(Workspace& workspace, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is_string()) return value;
  workspace.StepBytes(value.text().size());
  return workspace.String(Lower(value.text()));
}

}  // namespace hydrant::jinja
