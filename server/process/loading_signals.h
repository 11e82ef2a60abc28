// What signals mean until a server handles them.
#ifndef HYDRANT_SERVER_PROCESS_LOADING_SIGNALS_H_
#define HYDRANT_SERVER_PROCESS_LOADING_SIGNALS_H_

#include <unistd.h>

#include <csignal>

#include "server/process/exit_codes.h"

namespace hydrant {

// While the model is loading nothing has been promised to anybody: SIGTERM and SIGINT end the process at once, and well. The kernel
// keeps from the first process of a container whatever that has no handler for. A SIGHUP finds its file read already, or to be read.
inline void SetLoadingSignals() {
  for (const int number : {SIGTERM, SIGINT}) std::signal(number, [](int) { _exit(kExitOk); });
  std::signal(SIGHUP, SIG_IGN);
}

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_LOADING_SIGNALS_H_
