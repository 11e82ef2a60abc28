// Numbers as Python reads and writes them.
//
// Thread: any.
#ifndef HYDRANT_MODEL_JINJA_CORE_NUMBERS_H_
#define HYDRANT_MODEL_JINJA_CORE_NUMBERS_H_

#include <optional>
#include <string>
#include <string_view>

#include "model/jinja/core/value.h"

namespace hydrant::jinja {

// int(text, base), base 0 reading 0x, 0o and 0b; nullopt where Python raises, or where 64 bits do not hold it.
std::optional<Value> ParseInt(std::string_view text, int base);
// float(text), with its inf and nan.
std::optional<Value> ParseFloat(std::string_view text);

// repr(value): the shortest digits that read back as the same number.
std::string PrintFloat(double value);

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_CORE_NUMBERS_H_
