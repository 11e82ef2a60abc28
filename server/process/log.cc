#include "server/process/log.h"

#include <spdlog/async.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>

namespace hydrant {
namespace {

// 4096 lines of some 200 bytes: under 1 MiB, and seconds of the busiest server.
constexpr size_t kQueuedLinesMax = 4096;

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
};

// Set by StartLog and StopLog in main, before and after all other threads.
Writer& TheWriter() {
  static Writer writer;
  return writer;
}

}  // namespace

void StartLog(LogLevel level) {
  Writer& writer = TheWriter();
  writer.pool = std::make_shared<spdlog::details::thread_pool>(kQueuedLinesMax, 1);
  writer.logger = std::make_shared<spdlog::async_logger>("hydrantd", std::make_shared<spdlog::sinks::stderr_sink_mt>(),
                                                         writer.pool, spdlog::async_overflow_policy::overrun_oldest);
  writer.logger->set_level(Translate(level));
  writer.logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
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

void Log(LogLevel level, std::string_view line) {
  const Writer& writer = TheWriter();
  if (writer.logger == nullptr) return;
  writer.logger->log(Translate(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace hydrant
