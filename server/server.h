// Server puts the parts together and runs them until a signal or a failure ends it.
//
// Thread: main; Run uses it as one of the io threads.
//
// Shutdown: from the first SIGTERM or SIGINT on /ready answers 503. New generations are still served for
// shutdown_delay_s, the time balancers need to notice, and answered 503 then; running ones go on until nothing runs or
// shutdown_timeout_s more are over. A second signal, or the timeout, cancels what runs. Either way every stream ends with
// its own last event, and the exit code is 0. A service manager (systemd_notifier.h) hears of all this.
#ifndef HYDRANT_SERVER_SERVER_H_
#define HYDRANT_SERVER_SERVER_H_

#include <functional>
#include <string>

#include "server/config.h"
#include "server/process/load_reporter.h"

namespace hydrant {

// Takes a line for whoever started the server, on the thread of Serve.
using Announce = std::function<void(const std::string& line)>;

// Loads the model, serves it, returns the exit code. Announces "listening on http://HOST:PORT (what is served,
// and what fits)" once connections are accepted, or the one line that says why it does not come to that. With
// LogFormat::kJson both go into the log instead. Loading that takes more than a second is shown in `bar`, or in lines where
// there is none.
int Serve(const Config& config, const Announce& announce, const ShowBar& bar = nullptr);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SERVER_H_
