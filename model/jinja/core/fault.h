// Fault is how the evaluation of a template ends early. It is an exception because nearly every operation on values can fail
// and a failure always ends the whole render; it never leaves this folder: Template turns it into a Status.
//
// Thread: any.
#ifndef HYDRANT_MODEL_JINJA_CORE_FAULT_H_
#define HYDRANT_MODEL_JINJA_CORE_FAULT_H_

#include <cstdint>
#include <string>
#include <utility>

namespace hydrant::jinja {

enum class FaultKind : uint8_t {
  kSyntax,  // the template is not one we understand
  kRaised,  // the template called raise_exception: it refuses these messages, and says why
  kData,    // an operation does not fit the values it met, as where a message lacks a field
  kLimit,   // the template does more than a template may
};

struct Fault {
  FaultKind kind = FaultKind::kData;
  std::string message;
};

[[noreturn]] inline void Fail(std::string message) { throw Fault{FaultKind::kData, std::move(message)}; }

}  // namespace hydrant::jinja

#endif  // HYDRANT_MODEL_JINJA_CORE_FAULT_H_
