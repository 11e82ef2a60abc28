#include "api/wire/version.h"

namespace hydrant {

const char kVersion[] = HYDRANT_VERSION;

}  // namespace hydrant
