// The server's log: one line per fact on stderr, with a time and a level. Ids, counts and times only: never text of a
// request, never a key.
//
// Thread: any. Lines go through a bounded queue to a writer thread, so a reader of stderr that stops reading delays no
// thread; the oldest queued lines are dropped then.
#ifndef HYDRANT_SERVER_PROCESS_LOG_H_
#define HYDRANT_SERVER_PROCESS_LOG_H_

#include <string_view>

namespace hydrant {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Before the first Log; without it nothing is written.
void StartLog(LogLevel level);
// Writes what is queued and ends the writer thread.
void StopLog();
bool LogEnabled(LogLevel level);
void Log(LogLevel level, std::string_view line);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_LOG_H_
