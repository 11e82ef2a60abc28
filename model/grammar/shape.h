// Shapes are what a schema comes to: per value one expression of all scalars that fit, and the alternatives of objects and arrays.
//
// Thread: any (data).
#ifndef HYDRANT_MODEL_GRAMMAR_SHAPE_H_
#define HYDRANT_MODEL_GRAMMAR_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "model/grammar/regex/regex_arena.h"

namespace hydrant::grammar {

using ShapeId = int32_t;
inline constexpr ShapeId kNoShape = -1;         // no value fits
inline constexpr size_t kAlternativesMax = 64;  // of objects, or of arrays, that a value may begin with
inline constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

struct PropertyShape {
  std::string key;  // as JSON writes it, without its quotes
  ShapeId value = kNoShape;
  bool required = false;
};

// Keys that are none of the properties', as JSON writes them without quotes. Those of one object are disjoint, and endless.
struct ExtraShape {
  RegexId keys = kNothing;
  ShapeId value = kNoShape;
};

// Properties come in this order, then extra ones in any.
struct ObjectShape {
  std::vector<PropertyShape> properties;
  std::vector<ExtraShape> extras;
  int64_t least = 0, most = kNoLimit;  // members
};

struct ArrayShape {
  std::vector<ShapeId> prefix;  // of the first items
  ShapeId rest = kNoShape;      // of all behind them
  int64_t least = 0, most = kNoLimit;
};

struct ValueShape {
  RegexId scalars = kNothing;  // whole JSON texts of them
  std::vector<int32_t> objects, arrays;
};

struct ShapeSet {
  std::vector<ValueShape> values;
  std::vector<ObjectShape> objects;
  std::vector<ArrayShape> arrays;
  ShapeId root = kNoShape;

  // Adds the shapes of another set over the same expressions, and returns what its root is called here.
  ShapeId Append(ShapeSet other);

  // Takes out what no value fits, so that everything that may be begun can be ended. What is left has a value if root is a shape.
  void Prune();
};

}  // namespace hydrant::grammar

#endif  // HYDRANT_MODEL_GRAMMAR_SHAPE_H_
