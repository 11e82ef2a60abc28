#include "server/process/log.h"

#include <spdlog/async.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>

#include "api/wire/json_writer.h"

namespace hydrant {
namespace {

// 4096 lines of some 200 bytes: under 1 MiB, and seconds of the busiest server.
constexpr size_t kQueuedLinesMax = 4096;
constexpr size_t kStringBytesMax = 200;
constexpr std::string_view kLevelNames[] = {"debug", "info", "warning", "error"};

spdlog::level::level_enum Translate(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

struct Writer {
  std::shared_ptr<spdlog::details::thread_pool> pool;
  std::shared_ptr<spdlog::async_logger> logger;
  LogFormat format = LogFormat::kText;
};

// Set by StartLog and StopLog in main, before and after all other threads.
Writer& TheWriter() {
  static Writer writer;
  return writer;
}

bool IsOneWord(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '\\'; });
}

// As JSON has it, except that in text a word needs no quotes.
void AppendValue(const LogField& field, LogFormat format, std::string* out) {
  if (const auto* number = std::get_if<int64_t>(&field.value)) return AppendJsonInteger(out, *number);
  const std::string text = ToValidUtf8(std::get<std::string_view>(field.value), kStringBytesMax);
  if (format == LogFormat::kText && IsOneWord(text)) {
    out->append(text);
  } else {
    AppendJsonString(out, text);
  }
}

// What the pattern of `format` has in its place for a message: in JSON the members after its own, without the braces.
std::string MessageOf(std::string_view line, std::span<const LogField> fields, LogFormat format) {
  const bool json = format == LogFormat::kJson;
  std::string out;
  if (json) {
    out.append("\"message\":");
    AppendJsonString(&out, line);
  } else {
    out.append(line);
  }
  for (const LogField& field : fields) {
    out.append(json ? ",\"" : " ").append(field.name).append(json ? "\":" : " ");
    AppendValue(field, format, &out);
  }
  return out;
}

}  // namespace

std::string_view LogLevelName(LogLevel level) { return kLevelNames[static_cast<size_t>(level)]; }

std::optional<LogLevel> LogLevelOf(std::string_view name) {
  const auto* found = std::find(std::begin(kLevelNames), std::end(kLevelNames), name);
  if (found == std::end(kLevelNames)) return std::nullopt;
  return static_cast<LogLevel>(found - std::begin(kLevelNames));
}

void StartLog(LogLevel level, LogFormat format) {
  Writer& writer = TheWriter();
  writer.pool = std::make_shared<spdlog::details::thread_pool>(kQueuedLinesMax, 1);
  writer.logger = std::make_shared<spdlog::async_logger>("hydrantd", std::make_shared<spdlog::sinks::stderr_sink_mt>(),
                                                         writer.pool, spdlog::async_overflow_policy::overrun_oldest);
  writer.logger->set_level(Translate(level));
  writer.logger->set_pattern(format == LogFormat::kJson ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})"
                                                        : "%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  writer.format = format;
}

void SetLogLevel(LogLevel level) {
  const Writer& writer = TheWriter();
  if (writer.logger != nullptr) writer.logger->set_level(Translate(level));  // spdlog's is atomic
}

void StopLog() {
  Writer& writer = TheWriter();
  // Joins after the last line; nothing but this thread holds the logger then.
  writer.pool.reset();
  writer.logger.reset();
}

bool LogEnabled(LogLevel level) {
  const Writer& writer = TheWriter();
  return writer.logger != nullptr && writer.logger->should_log(Translate(level));
}

void Log(LogLevel level, std::string_view line, std::span<const LogField> fields) {
  const Writer& writer = TheWriter();
  if (writer.logger == nullptr || !writer.logger->should_log(Translate(level))) return;
  try {
    const std::string text = MessageOf(line, fields, writer.format);
    writer.logger->log(Translate(level), spdlog::string_view_t(text.data(), text.size()));
  } catch (const std::bad_alloc&) {
    // A line less: whoever says that there is no memory must not fail for that.
  }
}

}  // namespace hydrant
