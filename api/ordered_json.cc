#include "api/ordered_json.h"

#include <optional>
#include <string>
#include <utility>

namespace hydrant {

using Json = nlohmann::ordered_json;

Json OrderedJson(JsonView view) {
  if (view.absent()) return nullptr;
  if (view.is_bool()) return view.boolean();
  if (view.is_string()) return std::string(view.string());
  if (view.is_integer()) {
    const std::optional<int64_t> integer = view.integer();
    return integer.has_value() ? Json(*integer) : Json(view.number());
  }
  if (view.is_number()) return view.number();
  if (view.is_array()) {
    Json::array_t items;
    for (JsonView item = view.first(); item.valid(); item = item.next()) items.push_back(OrderedJson(item));
    return items;
  }
  Json::object_t members;
  // Straight to the end: looking for an equal key first would take the square of a large object's size.
  for (JsonView member = view.first(); member.valid(); member = member.next()) {
    members.emplace_back(std::string(member.key()), OrderedJson(member));
  }
  return members;
}

}  // namespace hydrant
