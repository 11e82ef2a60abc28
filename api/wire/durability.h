// Durability is what a turn's end promises to survive the process, and what an operator has it promise.
//
// Thread: any (plain data).
#ifndef HYDRANT_API_WIRE_DURABILITY_H_
#define HYDRANT_API_WIRE_DURABILITY_H_

#include <cstdint>
#include <string_view>

namespace hydrant {

enum class Durability : uint8_t {
  kNone,
  kTokens,  // its tokens and text
  kKv,      // and its KV: the next turn is that of a server that was never stopped
};

constexpr std::string_view DurabilityName(Durability durability) {
  switch (durability) {
    case Durability::kTokens:
      return "tokens";
    case Durability::kKv:
      return "kv";
    case Durability::kNone:
      break;
  }
  return "none";
}

}  // namespace hydrant

#endif  // HYDRANT_API_WIRE_DURABILITY_H_
