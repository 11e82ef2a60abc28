#include "loadgen/report/report_json.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

using Json = nlohmann::ordered_json;

void AddDistilled(const std::string& name, const Distilled& values, const SummarySpec& spec, Json* out) {
  (*out)["mean_" + name] = values.mean;
  (*out)["median_" + name] = values.median;
  (*out)["std_" + name] = values.deviation;
  for (size_t i = 0; i < spec.percents.size(); ++i) {
    (*out)[PercentileName(spec.percents[i]) + "_" + name] = values.percentiles[i];
  }
  (*out)["max_" + name] = values.max;
}

void AddGroup(const GroupSummary& group, double duration_s, const SummarySpec& spec, bool closed_loop, Json* out) {
  const auto per_second = [&](double count) { return duration_s > 0 ? count / duration_s : 0; };
  const double input = static_cast<double>(group.input_tokens);
  const double output = static_cast<double>(group.output_tokens);
  Json& json = *out;
  json["completed"] = group.completed;
  json["failed"] = group.failed;
  json["cancelled"] = group.cancelled;
  json["total_input_tokens"] = group.input_tokens;
  json["total_cached_tokens"] = group.cached_tokens;
  json["total_output_tokens"] = group.output_tokens;
  json["request_throughput"] = per_second(static_cast<double>(group.completed));
  json["request_goodput"] = spec.goals.empty() ? Json() : Json(per_second(static_cast<double>(group.good)));
  json["good_completed"] = spec.goals.empty() ? Json() : Json(group.good);
  json["output_throughput"] = per_second(output);
  json["total_token_throughput"] = per_second(input + output);
  Json errors = Json::object();
  for (size_t i = 1; i < kRequestErrors; ++i) errors[RequestErrorName(static_cast<RequestError>(i))] = group.errors[i];
  json["errors_by_kind"] = errors;
  AddDistilled("ttft_ms", group.ttft_ms, spec, out);
  AddDistilled("tpot_ms", group.tpot_ms, spec, out);
  AddDistilled("itl_ms", group.itl_ms, spec, out);
  AddDistilled("e2el_ms", group.e2el_ms, spec, out);
  if (!closed_loop) AddDistilled("client_queue_time_ms", group.queue_ms, spec, out);
}

void AddDetails(const RunResult& run, bool closed_loop, Json* out) {
  std::vector<const RequestRecord*> records;
  for (const RequestRecord& record : run.records) records.push_back(&record);
  std::stable_sort(records.begin(), records.end(),
                   [](const RequestRecord* a, const RequestRecord* b) { return a->sent_s < b->sent_s; });
  const auto add = [&](const char* name, auto value) {
    Json list = Json::array();
    for (const RequestRecord* record : records) list.push_back(value(*record));
    (*out)[name] = std::move(list);
  };
  add("input_lens", [](const RequestRecord& r) { return r.prompt_tokens; });
  add("output_lens", [](const RequestRecord& r) { return r.succeeded() ? r.output_tokens : 0; });
  add("ttfts", [](const RequestRecord& r) { return r.first_s > 0 ? r.ttft_s() : 0; });
  add("itls", [](const RequestRecord& r) { return r.gaps_s; });
  add("latencies", [](const RequestRecord& r) { return r.first_s > 0 ? r.e2e_s() : 0; });
  add("start_times", [](const RequestRecord& r) { return r.sent_s; });
  if (!closed_loop) add("queue_times", [](const RequestRecord& r) { return r.queue_s(); });
  add("errors", [](const RequestRecord& r) { return r.error_text; });
  add("tenant_ids", [](const RequestRecord& r) { return r.tenant_idx; });
  add("conversation_ids", [](const RequestRecord& r) { return r.conversation_idx; });
  add("turn_ids", [](const RequestRecord& r) { return r.turn; });
  add("finish_reasons", [](const RequestRecord& r) { return r.finish_reason; });
}

Json JsonRate(const std::optional<double>& rate) {
  if (!rate.has_value()) return {};
  return std::isinf(*rate) ? Json("inf") : Json(*rate);
}

}  // namespace

Json CompareJson(const std::vector<CompareLine>& lines) {
  Json json = Json::object();
  for (const CompareLine& line : lines) {
    json[line.name] = {{"a", line.first},          {"b", line.second},        {"ratio", line.ratio.estimate},
                       {"low", line.ratio.low},    {"high", line.ratio.high}, {"pairs", line.pairs},
                       {"differs", line.differs()}};
  }
  return json;
}

std::string PercentileName(double percent) { return absl::StrCat("p", percent); }

Json ReportJson(const ReportHead& head, const Summary& summary, const SummarySpec& spec, const RunResult& run,
                bool detailed) {
  Json json;
  json["date"] = head.date;
  json["backend"] = head.backend;
  json["label"] = head.title;
  json["base_url"] = head.base_url;
  json["model_id"] = head.model;
  json["num_prompts"] = head.num_prompts == 0 ? Json(run.records.size()) : Json(head.num_prompts);
  for (const auto& [name, value] : head.metadata) json[name] = value;
  json["request_rate"] = JsonRate(head.request_rate);
  if (!head.ramp.empty()) {
    json["ramp_up_strategy"] = head.ramp;
    json["ramp_up_start_rps"] = head.ramp_start_rps;
    json["ramp_up_end_rps"] = head.ramp_end_rps;
  }
  json["burstiness"] = head.burstiness;
  json["max_concurrency"] = head.concurrency_max == 0 ? Json() : Json(head.concurrency_max);
  Json configuration = Json::object();
  for (const auto& [name, value] : head.configuration) configuration[name] = value;
  json["configuration"] = configuration;
  json["duration"] = summary.duration_s;
  json["start_time_unix"] = run.start_unix_s;
  json["interrupted"] = summary.interrupted;
  AddGroup(summary.all, summary.duration_s, spec, head.closed_loop, &json);
  json["max_output_tokens_per_s"] = summary.max_output_tokens_per_s;
  json["max_concurrent_requests"] = summary.max_concurrent_requests;
  json["offered_request_rate"] = summary.offered_rate;
  json["max_lag_ms"] = summary.max_lag_ms;
  json["max_send_lag_ms"] = summary.max_send_lag_ms;
  json["p99_send_lag_ms"] = summary.p99_send_lag_ms;
  json["max_loop_lag_ms"] = summary.max_loop_lag_ms;
  json["client_cpu_share"] = summary.cpu_share;
  json["client_kept_up"] = summary.kept_up;
  const auto groups = [&](const std::vector<GroupSummary>& list) {
    Json object = Json::object();
    for (const GroupSummary& group : list) {
      AddGroup(group, summary.duration_s, spec, head.closed_loop, &object[group.name]);
    }
    return object;
  };
  if (!summary.tenants.empty()) {
    json["tenants"] = groups(summary.tenants);
    json["fairness"] = {{"jain_service", summary.jain_service}, {"jain_completion", summary.jain_completion}};
  }
  if (!summary.turns.empty()) json["turns"] = groups(summary.turns);
  Json refusals = Json::array();
  for (const Refusal& refusal : summary.refusals) {
    refusals.push_back({{"kind", RequestErrorName(refusal.error)}, {"count", refusal.count}, {"text", refusal.text}});
  }
  json["refusals"] = refusals;
  if (detailed) AddDetails(run, head.closed_loop, &json);
  return json;
}

}  // namespace hydrant
