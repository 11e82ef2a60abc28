#include "api/wire/ordered_json.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

// False: there is an integer beyond 64 bits.
bool Convert(JsonView view, Json* json) {
  if (view.absent()) {
    *json = nullptr;
  } else if (view.is_bool()) {
    *json = view.boolean();
  } else if (view.is_string()) {
    *json = std::string(view.string());
  } else if (view.is_integer()) {
    const std::optional<int64_t> integer = view.integer();
    const std::optional<uint64_t> natural = view.unsigned_integer();
    if (!integer.has_value() && !natural.has_value()) return false;
    *json = integer.has_value() ? Json(*integer) : Json(*natural);
  } else if (view.is_number()) {
    *json = view.number();
  } else if (view.is_array()) {
    Json::array_t items;
    for (JsonView item = view.first(); item.valid(); item = item.next()) {
      if (!Convert(item, &items.emplace_back())) return false;
    }
    *json = std::move(items);
  } else {
    Json::object_t members;
    // Straight to the end: looking for an equal key first would take the square of a large object's size.
    for (JsonView member = view.first(); member.valid(); member = member.next()) {
      Json value;
      if (!Convert(member, &value)) return false;
      members.emplace_back(std::string(member.key()), std::move(value));
    }
    *json = std::move(members);
  }
  return true;
}

}  // namespace

std::optional<Json> OrderedJson(JsonView view) {
  Json json;
  if (!Convert(view, &json)) return std::nullopt;
  return json;
}

Json ReadOrderedJson(ObjectReader* request, std::string_view path, JsonView view) {
  std::optional<Json> json = OrderedJson(view);
  if (json.has_value()) return *std::move(json);
  request->Fail(path, absl::StrCat("'", std::string(path), "' holds an integer of more than 64 bits."));
  return nullptr;
}

}  // namespace hydrant
