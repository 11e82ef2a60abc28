#include "model/grammar/shape.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace hydrant::grammar {
namespace {

class Pruning {
 public:
  explicit Pruning(ShapeSet& shapes)
      : shapes_(shapes),
        values_(shapes.values.size()),
        objects_(shapes.objects.size()),
        arrays_(shapes.arrays.size()) {}

  void Run() {
    // From values that have a scalar upwards: what is never reached needs itself.
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < objects_.size(); ++i) changed |= Mark(objects_, i, ObjectFits(shapes_.objects[i]));
      for (size_t i = 0; i < arrays_.size(); ++i) changed |= Mark(arrays_, i, ArrayFits(shapes_.arrays[i]));
      for (size_t i = 0; i < values_.size(); ++i) changed |= Mark(values_, i, ValueFits(shapes_.values[i]));
    }
    for (ObjectShape& object : shapes_.objects) {
      for (PropertyShape& property : object.properties) {
        if (!Fits(property.value)) property.value = kNoShape;
      }
      std::erase_if(object.extras, [&](const ExtraShape& extra) { return !Fits(extra.value); });
    }
    for (ArrayShape& array : shapes_.arrays) {
      const auto end = std::ranges::find_if(array.prefix, [&](ShapeId item) { return !Fits(item); });
      if (end != array.prefix.end() || !Fits(array.rest)) {
        array.prefix.erase(end, array.prefix.end());
        array.rest = kNoShape;
        array.most = std::min(array.most, static_cast<int64_t>(array.prefix.size()));
      }
    }
    for (ValueShape& value : shapes_.values) {
      std::erase_if(value.objects, [&](int32_t id) { return !objects_[static_cast<size_t>(id)]; });
      std::erase_if(value.arrays, [&](int32_t id) { return !arrays_[static_cast<size_t>(id)]; });
    }
    if (!Fits(shapes_.root)) shapes_.root = kNoShape;
  }

 private:
  static bool Mark(std::vector<bool>& marks, size_t i, bool fits) {
    if (!fits || marks[i]) return false;
    marks[i] = true;
    return true;
  }
  bool Fits(ShapeId id) const { return id != kNoShape && values_[static_cast<size_t>(id)]; }
  bool ValueFits(const ValueShape& value) const {
    return value.scalars != kNothing ||
           std::ranges::any_of(value.objects, [&](int32_t id) { return objects_[static_cast<size_t>(id)]; }) ||
           std::ranges::any_of(value.arrays, [&](int32_t id) { return arrays_[static_cast<size_t>(id)]; });
  }
  bool ObjectFits(const ObjectShape& object) const {
    int64_t can = 0, must = 0;
    for (const PropertyShape& property : object.properties) {
      if (property.required && !Fits(property.value)) return false;
      can += Fits(property.value) ? 1 : 0;
      must += property.required ? 1 : 0;
    }
    const bool endless = std::ranges::any_of(object.extras, [&](const ExtraShape& extra) { return Fits(extra.value); });
    return must <= object.most && object.least <= object.most && (endless || can >= object.least);
  }
  bool ArrayFits(const ArrayShape& array) const {
    if (array.least > array.most) return false;
    for (int64_t i = 0; i < array.least; ++i) {
      if (i >= static_cast<int64_t>(array.prefix.size())) return Fits(array.rest);
      if (!Fits(array.prefix[static_cast<size_t>(i)])) return false;
    }
    return true;
  }

  ShapeSet& shapes_;
  std::vector<bool> values_, objects_, arrays_;  // some value is known to fit
};

}  // namespace

void ShapeSet::Prune() { Pruning(*this).Run(); }

ShapeId ShapeSet::Append(ShapeSet other) {
  const auto values_before = static_cast<ShapeId>(values.size());
  const auto objects_before = static_cast<int32_t>(objects.size()), arrays_before = static_cast<int32_t>(arrays.size());
  const auto moved = [&](ShapeId id) { return id == kNoShape ? kNoShape : id + values_before; };
  for (ValueShape& value : other.values) {
    for (int32_t& id : value.objects) id += objects_before;
    for (int32_t& id : value.arrays) id += arrays_before;
    values.push_back(std::move(value));
  }
  for (ObjectShape& object : other.objects) {
    for (PropertyShape& property : object.properties) property.value = moved(property.value);
    for (ExtraShape& extra : object.extras) extra.value = moved(extra.value);
    objects.push_back(std::move(object));
  }
  for (ArrayShape& array : other.arrays) {
    for (ShapeId& id : array.prefix) id = moved(id);
    array.rest = moved(array.rest);
    arrays.push_back(std::move(array));
  }
  return moved(other.root);
}

}  // namespace hydrant::grammar
