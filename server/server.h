// Server puts the parts together and runs them until a signal or a failure ends it.
//
// Thread: main; Run uses it as one of the io threads.
//
// Shutdown: the first SIGTERM or SIGINT drains (/ready and new generations answer 503, running ones go on) until nothing
// runs or shutdown_timeout_s is over; a second one, or the timeout, cancels what runs. Either way every stream ends with
// its own last event, and the exit code is 0.
#ifndef HYDRANT_SERVER_SERVER_H_
#define HYDRANT_SERVER_SERVER_H_

#include "server/config.h"

namespace hydrant {

// Loads the model, serves it, returns the exit code. Errors are logged; the line "listening on http://HOST:PORT" goes to
// stderr once requests are answered.
int Serve(const Config& config);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SERVER_H_
