#include "api/wire/object_reader.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

// 7f is DEL; everything below 20 is C0. Bytes above 7f are UTF-8, checked by the parser.
bool HasControlCharacter(std::string_view text) {
  for (const char byte : text) {
    if (static_cast<uint8_t>(byte) < 0x20 || byte == 0x7f) return true;
  }
  return false;
}

// A limit as a log has it: one that nothing can reach is none.
int64_t Told(size_t limit) { return limit > (size_t{1} << 40) ? 0 : static_cast<int64_t>(limit); }

bool IsFieldCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

}  // namespace

ObjectReader::ObjectReader(JsonView object, std::string path, std::optional<ApiError>* error, FieldLog* log)
    : path_(std::move(path)), error_(error), log_(log) {
  if (object.absent()) return;
  if (!object.is_object()) {
    const std::string name = path_.substr(0, path_.empty() ? 0 : path_.size() - 1);
    if (!failed()) {
      *error_ = InvalidField(
          name, name.empty() ? "The body must be a JSON object." : absl::StrCat("'", name, "' must be an object."),
          name.empty() ? ErrorCode<400>("invalid_json") : ErrorCode<400>("invalid_type"));
    }
    return;
  }
  for (JsonView member = object.first(); member.valid(); member = member.next()) {
    members_.insert_or_assign(member.key(), member);
  }
}

std::string ObjectReader::Path(std::string_view name) const { return path_ + std::string(name); }

void ObjectReader::Fail(std::string_view name, std::string message, ErrorCode<400> code) {
  if (!failed()) *error_ = InvalidField(Path(name), std::move(message), code);
}

void ObjectReader::FailUnsupported(std::string_view name, std::string_view what) {
  if (!failed()) *error_ = UnsupportedField(Path(name), what);
}

void ObjectReader::FailWith(ApiError error) {
  if (!failed()) *error_ = std::move(error);
}

JsonView ObjectReader::Raw(std::string_view name) const { return Logged(name, {}); }

JsonView ObjectReader::Logged(std::string_view name, const FieldNote& note) const {
  if (log_ != nullptr) log_->Add(Path(name), note);
  return Find(name);
}

JsonView ObjectReader::Find(std::string_view name) const {
  const auto member = members_.find(name);
  return member == members_.end() || member->second.absent() ? JsonView() : member->second;
}

void ObjectReader::RefuseOthers(std::span<const std::string_view> known) {
  std::optional<std::string_view> first;  // by name, for the map has no order
  for (const auto& [name, value] : members_) {
    if (value.absent() || std::find(known.begin(), known.end(), name) != known.end()) continue;
    if (!first.has_value() || name < *first) first = name;
  }
  if (!first.has_value()) return;
  std::string names;
  for (const std::string_view name : known) absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(name));
  // The name is the client's: one that could not be a field's name is not repeated.
  const bool shown = first->size() <= 64 && std::all_of(first->begin(), first->end(), IsFieldCharacter);
  const std::string param = shown ? Path(*first) : path_.substr(0, path_.empty() ? 0 : path_.size() - 1);
  const std::string subject = shown ? absl::StrCat("'", param, "'") : absl::StrCat("A member of '", param, "'");
  FailWith(InvalidField(param, absl::StrCat(subject, " is not known; known are: ", names, "."), "unknown_field"));
}

bool ObjectReader::Has(std::string_view name) const { return Raw(name).valid(); }

bool ObjectReader::Bool(std::string_view name, bool default_value) {
  const JsonView value = Logged(name, {.kind = FieldKind::kBoolean});
  if (!value.valid()) return default_value;
  if (!value.is_bool()) {
    Fail(name, absl::StrCat("'", Path(name), "' must be true or false."), "invalid_type");
    return default_value;
  }
  return value.boolean();
}

std::optional<int64_t> ObjectReader::OptionalInteger(std::string_view name, int64_t min, int64_t max) {
  const JsonView value =
      Logged(name, {.kind = FieldKind::kInteger, .min = static_cast<double>(min), .max = static_cast<double>(max)});
  if (!value.valid()) return std::nullopt;
  if (!value.is_integer()) {
    Fail(name, absl::StrCat("'", Path(name), "' must be an integer."), "invalid_type");
    return std::nullopt;
  }
  const std::optional<int64_t> integer = value.integer();
  if (!integer.has_value() || *integer < min || *integer > max) {
    Fail(name, absl::StrCat("'", Path(name), "' must be in [", min, ", ", max, "]."));
    return std::nullopt;
  }
  return integer;
}

int64_t ObjectReader::Integer(std::string_view name, int64_t default_value, int64_t min, int64_t max) {
  return OptionalInteger(name, min, max).value_or(default_value);
}

double ObjectReader::Number(std::string_view name, double default_value, double min, double max, bool min_open) {
  const JsonView value = Logged(name, {.kind = FieldKind::kNumber, .min = min, .max = max, .min_open = min_open});
  if (!value.valid()) return default_value;
  if (!value.is_number()) {
    Fail(name, absl::StrCat("'", Path(name), "' must be a number."), "invalid_type");
    return default_value;
  }
  const double number = value.number();
  const bool above = min_open ? number > min : number >= min;
  if (!std::isfinite(number) || !above || !(number <= max)) {
    Fail(name, absl::StrCat("'", Path(name), "' must be in ", min_open ? "(" : "[", min, ", ", max, "]."));
    return default_value;
  }
  return number;
}

std::string ObjectReader::String(std::string_view name, std::string_view default_value, size_t bytes_max,
                                 bool identifier) {
  const JsonView value = Logged(name, {.kind = FieldKind::kString, .most = Told(bytes_max)});
  if (!value.valid()) return std::string(default_value);
  if (!value.is_string()) {
    Fail(name, absl::StrCat("'", Path(name), "' must be a string."), "invalid_type");
  } else if (value.string().size() > bytes_max) {
    Fail(name, absl::StrCat("'", Path(name), "' must have at most ", bytes_max, " bytes."));
  } else if (identifier && HasControlCharacter(value.string())) {
    Fail(name, absl::StrCat("'", Path(name), "' must not have control characters."));
  } else {
    return std::string(value.string());
  }
  return std::string(default_value);
}

std::vector<int32_t> ObjectReader::TokenIds(std::string_view name, int32_t vocab_size, size_t count_max) {
  const JsonView value = Logged(name, {.kind = FieldKind::kTokenIds, .max = vocab_size - 1.0, .most = Told(count_max)});
  if (!value.valid()) return {};
  return TokenIdsIn(name, value, vocab_size, count_max);
}

std::vector<int32_t> ObjectReader::TokenIdsIn(std::string_view name, JsonView value, int32_t vocab_size,
                                              size_t count_max) {
  std::vector<int32_t> ids;
  if (!value.is_array()) {
    Fail(name, absl::StrCat("'", Path(name), "' must be an array of token ids."), "invalid_type");
    return ids;
  }
  if (value.size() > count_max) {
    Fail(name, absl::StrCat("'", Path(name), "' must have at most ", count_max, " token ids."));
    return ids;
  }
  ids.reserve(value.size());
  for (JsonView element = value.first(); element.valid(); element = element.next()) {
    const std::optional<int64_t> id = element.is_integer() ? element.integer() : std::nullopt;
    if (!id.has_value() || *id < 0 || *id >= vocab_size) {
      Fail(name,
           absl::StrCat("Element ", ids.size(), " of '", Path(name), "' must be a token id: an integer in [0, ",
                        vocab_size, ")."),
           "token_id_out_of_range");
      return {};
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

std::vector<std::string> ObjectReader::Strings(std::string_view name, size_t count_max, size_t bytes_max) {
  std::vector<std::string> strings;
  const JsonView value = Logged(name, {.kind = FieldKind::kStrings, .most = Told(bytes_max)});
  if (!value.valid()) return strings;
  const auto add = [&](JsonView element) {
    if (!element.is_string()) {
      Fail(name, absl::StrCat("'", Path(name), "' must be a string or an array of strings."), "invalid_type");
      return false;
    }
    if (element.string().empty() || element.string().size() > bytes_max) {
      Fail(name, absl::StrCat("Each string of '", Path(name), "' must have 1 to ", bytes_max, " bytes."));
      return false;
    }
    strings.emplace_back(element.string());
    return true;
  };
  if (!value.is_array()) {
    add(value);
    return strings;
  }
  if (value.size() > count_max) {
    Fail(name, absl::StrCat("'", Path(name), "' must have at most ", count_max, " strings."));
    return strings;
  }
  for (JsonView element = value.first(); element.valid(); element = element.next()) {
    if (!add(element)) return {};
  }
  return strings;
}

ObjectReader ObjectReader::Object(std::string_view name) {
  return ObjectReader(Logged(name, {.kind = FieldKind::kObject}), Path(name) + ".", error_, log_);
}

}  // namespace hydrant
