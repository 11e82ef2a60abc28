// The server's log: one line per fact on stderr, with a time and a level, as text or as a JSON object. Ids, counts, times and
// the path of a request only: never text of its body, never a key.
//
// Thread: any. Lines go through a bounded queue to a writer thread, so a reader of stderr that stops reading delays no
// thread; the oldest queued lines are dropped then.
#ifndef HYDRANT_SERVER_PROCESS_LOG_H_
#define HYDRANT_SERVER_PROCESS_LOG_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

namespace hydrant {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

// What a line says in a form that programs read: `name value` at the end of a text line, a member of a JSON one. Of a string the
// first 200 bytes; what could be taken for more than one word is quoted and escaped in either format.
struct LogField {
  std::string_view name;  // lower case words, joined by '_'; neither time, level nor message
  std::variant<std::string_view, int64_t> value;
};

std::string_view LogLevelName(LogLevel level);  // "debug" … "error"
std::optional<LogLevel> LogLevelOf(std::string_view name);

// Before the first Log; without it nothing is written.
void StartLog(LogLevel level, LogFormat format = LogFormat::kText);
// From now on. REQUIRES: between StartLog and StopLog, or nothing happens.
void SetLogLevel(LogLevel level);
// Writes what is queued and ends the writer thread.
void StopLog();
bool LogEnabled(LogLevel level);
// Without memory the line is lost.
void Log(LogLevel level, std::string_view line, std::span<const LogField> fields = {});

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_LOG_H_
