// Server puts the parts together and runs them until a signal or a failure ends it.
//
// Thread: main; Run uses it as one of the io threads.
//
// Shutdown: the first SIGTERM or SIGINT drains (/ready and new generations answer 503, running ones go on) until
// nothing runs or shutdown_timeout_s is over; a second one, or the timeout, cancels what runs. Either way every stream
// ends with its own last event, and the exit code is 0.
#ifndef HYDRANT_SERVER_SERVER_H_
#define HYDRANT_SERVER_SERVER_H_

#include <functional>
#include <string>

#include "server/config.h"

namespace hydrant {

// Takes a line for whoever started the server, on the thread of Serve.
using Announce = std::function<void(const std::string& line)>;

// Loads the model, serves it, returns the exit code. Announces "listening on http://HOST:PORT" once connections are
// accepted, or the one line that says why it does not come to that.
int Serve(const Config& config, const Announce& announce);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SERVER_H_
