// EffectiveConfig is what GET /admin/config shows of a running server: every setting that a flag has, with the value in force and
// where it came from, and what was derived from the settings, the model and the machine. Its list of settings is explicit, so that a
// secret is never shown because somebody forgot to hide it.
//
// Thread: any (pure, the log's level aside).
#ifndef HYDRANT_SERVER_EFFECTIVE_CONFIG_H_
#define HYDRANT_SERVER_EFFECTIVE_CONFIG_H_

#include <string>

#include "server/config.h"
#include "server/sizing.h"

namespace hydrant {

// {"settings": {name: {"value", "from"}, …}, "derived": {name: value, …}}: names as in a file of --config; `from` is "default", "flag",
// "file" (of --config), "environment" or "socket" (a service manager's). A key is "***" where there is one, its file's path is shown.
std::string EffectiveConfigJson(const Config& config, const Sizing& sizing, const std::string& device);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_EFFECTIVE_CONFIG_H_
