#include "server/http/request_log.h"

#include <optional>
#include <utility>
#include <vector>

#include "api/wire/trace_context.h"
#include "server/http/http_exchange.h"
#include "server/process/clock.h"
#include "server/process/log.h"

namespace hydrant {
namespace {

constexpr int64_t kRefusalsPerMinute = 300;
constexpr int64_t kRefusalsAtOnce = 20;

class Fields {
 public:
  void Add(std::string_view name, std::string_view value) {
    if (!value.empty()) fields_.push_back({name, value});
  }
  void Add(std::string_view name, int64_t value) {
    if (value >= 0) fields_.push_back({name, value});
  }
  const std::vector<LogField>& fields() const { return fields_; }

 private:
  std::vector<LogField> fields_;
};

// Two fields of this name are no trace of anybody.
std::string_view TraceId(const HttpHead& head) {
  const std::string* found = nullptr;
  for (const HttpField& field : head.fields) {
    if (field.name != "traceparent") continue;
    if (found != nullptr) return {};
    found = &field.value;
  }
  return found == nullptr ? std::string_view() : TraceIdOf(*found).value_or(std::string_view());
}

}  // namespace

bool RefusalSampler::Admit(int status, int64_t now_us, int64_t* left_out) {
  const std::lock_guard lock(mutex_);
  Kind& kind = kinds_[status];
  kind.lines.SetLimit(kRefusalsPerMinute, kRefusalsAtOnce, now_us);  // the first time
  if (!kind.lines.TryTake(1, now_us)) {
    ++kind.left_out;
    return false;
  }
  *left_out = std::exchange(kind.left_out, 0);
  return true;
}

void RequestLog::Write(HttpExchange& exchange, std::string_view peer, bool client_gone) {
  const RequestNotes& notes = exchange.notes();
  const bool generated = !notes.generation_id.empty();
  const bool refused = exchange.status() >= 400 && !generated;
  const LogLevel level = generated || refused || notes.audited ? LogLevel::kInfo : LogLevel::kDebug;
  if (!LogEnabled(level)) return;
  const int64_t now_us = MonotonicUs();
  int64_t left_out = 0;
  if (refused && !notes.audited && !sampler_.Admit(exchange.status(), now_us, &left_out)) return;

  const std::string tenant =
      tenant_name_ != nullptr && exchange.caller() != nullptr ? tenant_name_(*exchange.caller()) : std::string();
  Fields fields;
  fields.Add("id", exchange.request_id());
  fields.Add("trace_id", TraceId(exchange.head()));
  fields.Add("method", exchange.head().method);
  fields.Add("path", exchange.head().path);
  fields.Add("status", exchange.status());
  if (client_gone) fields.Add("client_gone", 1);
  fields.Add("error", notes.error_code);
  fields.Add("tenant", tenant);
  fields.Add("peer", peer);
  fields.Add("generation", notes.generation_id);
  fields.Add("finish", notes.finish);
  fields.Add("session", notes.session);
  fields.Add("prompt_tokens", notes.prompt_tokens);
  fields.Add("cached_tokens", notes.cached_tokens);
  fields.Add("generated_tokens", notes.generated_tokens);
  fields.Add("queue_ms", notes.queue_ms);
  fields.Add("first_token_ms", notes.first_token_ms);
  fields.Add("us", now_us - exchange.arrival_us());
  if (left_out > 0) fields.Add("left_out", left_out);
  Log(level, notes.audited ? "operator" : "request", fields.fields());
}

void RequestLog::WriteRefusal(const ApiError& error, std::string_view request_id, std::string_view peer) {
  int64_t left_out = 0;
  if (!LogEnabled(LogLevel::kInfo) || !sampler_.Admit(error.status, MonotonicUs(), &left_out)) return;
  Fields fields;
  fields.Add("id", request_id);
  fields.Add("status", error.status);
  fields.Add("error", error.code);
  fields.Add("peer", peer);
  if (left_out > 0) fields.Add("left_out", left_out);
  Log(LogLevel::kInfo, "request", fields.fields());
}

}  // namespace hydrant
