#include "model/jinja/library/from_json.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "model/jinja/core/fault.h"

namespace hydrant::jinja {
namespace {

using Json = nlohmann::ordered_json;

Value StringValue(const std::string& text, Origin origin) {
  return Value::Of(MakeObject<StringObject>(Text(text, origin)));
}

// Objects in an array stand here.
constexpr int kMemberLevel = 2;

Value Convert(const Json& json, Origin origin, int level, std::string_view checked_member) {
  if (level > kNestingMax) throw Fault{FaultKind::kLimit, "the values nest too deep"};
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::Bool(json.get<bool>(), origin);
    case Json::value_t::number_integer:
      return Value::Int(json.get<int64_t>(), origin);
    case Json::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return Value::Wide(number, origin);
      return Value::Int(static_cast<int64_t>(number), origin);
    }
    case Json::value_t::number_float:
      return Value::Float(json.get<double>(), origin);
    case Json::value_t::string:
      return StringValue(json.get_ref<const std::string&>(), origin);
    case Json::value_t::array: {
      Values items(nullptr);
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(Convert(item, origin, level + 1, checked_member));
      return Value::Of(MakeObject<Sequence>(std::move(items), Sequence::Kind::kList));
    }
    case Json::value_t::object: {
      auto dict = MakeObject<Dict>(nullptr);
      for (const auto& [key, value] : json.items()) {
        const bool checked = level == kMemberLevel && !checked_member.empty() && key == checked_member;
        dict->SetText(StringValue(key, origin),
                      Convert(value, checked ? Origin::kTemplate : origin, level + 1, checked_member));
      }
      return Value::Of(std::move(dict));
    }
    default:
      return Value::None();
  }
}

}  // namespace

Value FromJson(const Json& json, Origin origin, std::string_view checked_member) {
  return Convert(json, origin, 1, checked_member);
}

}  // namespace hydrant::jinja
