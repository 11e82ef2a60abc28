#include "loadgen/results/compare.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace hydrant {
namespace {

// Nothing where an answer has no such value.
using Value = std::function<std::optional<double>(const RequestRecord&)>;
using PairedRecords = std::vector<std::vector<std::pair<const RequestRecord*, const RequestRecord*>>>;

double Ms(double seconds) { return 1000 * seconds; }

PairedRecords PairUp(const std::vector<CompareRound>& rounds) {
  PairedRecords paired;
  for (const CompareRound& round : rounds) {
    std::map<std::pair<size_t, int32_t>, const RequestRecord*> first;
    for (const RequestRecord& record : round.first.records) {
      if (record.succeeded()) first[{record.conversation_idx, record.turn}] = &record;
    }
    auto& pairs = paired.emplace_back();
    for (const RequestRecord& record : round.second.records) {
      const auto match = first.find({record.conversation_idx, record.turn});
      if (record.succeeded() && match != first.end()) pairs.emplace_back(match->second, &record);
    }
  }
  return paired;
}

CompareLine Line(std::string name, const std::vector<std::vector<Pair>>& rounds, const Statistic& statistic,
                 uint64_t seed) {
  CompareLine line;
  line.name = std::move(name);
  std::vector<double> first, second;
  for (const std::vector<Pair>& round : rounds) {
    for (const Pair& pair : round) {
      first.push_back(pair.first);
      second.push_back(pair.second);
    }
  }
  line.pairs = first.size();
  line.first = statistic(first);
  line.second = statistic(second);
  line.ratio = BootstrapRatio(rounds, statistic, seed);
  return line;
}

// Tokens per second of each round: one pair a round.
CompareLine Throughput(const std::vector<CompareRound>& rounds, uint64_t seed) {
  const auto rate = [](const RunResult& run) {
    double tokens = 0;
    for (const RequestRecord& record : run.records) {
      if (record.succeeded()) tokens += static_cast<double>(record.output_tokens);
    }
    return run.duration_s > 0 ? tokens / run.duration_s : 0;
  };
  std::vector<std::vector<Pair>> pairs;
  for (const CompareRound& round : rounds) pairs.push_back({{rate(round.first), rate(round.second)}});
  return Line(
      "output tok/s", pairs, [](std::span<const double> values) { return Mean(values); }, seed);
}

}  // namespace

std::vector<CompareLine> CompareServers(const std::vector<CompareRound>& rounds, uint64_t seed) {
  const PairedRecords paired = PairUp(rounds);
  const std::pair<const char*, Value> values[] = {
      {"TTFT (ms)", [](const RequestRecord& record) { return Ms(record.ttft_s()); }},
      {"TPOT (ms)",
       [](const RequestRecord& record) {
         return record.output_tokens > 1 ? std::optional<double>(Ms(record.tpot_s())) : std::nullopt;
       }},
      {"E2E (ms)", [](const RequestRecord& record) { return Ms(record.e2e_s()); }}};
  const std::pair<const char*, Statistic> statistics[] = {
      {"mean ", [](std::span<const double> sample) { return Mean(sample); }},
      {"median ",
       [](std::span<const double> sample) {
         return Percentile({sample.begin(), sample.end()}, 50);
       }},
      {"p99 ", [](std::span<const double> sample) {
         return Percentile({sample.begin(), sample.end()}, 99);
       }}};
  std::vector<CompareLine> lines = {Throughput(rounds, seed)};
  for (const auto& [value_name, value] : values) {
    std::vector<std::vector<Pair>> pairs;
    for (const auto& round : paired) {
      auto& list = pairs.emplace_back();
      for (const auto& [first, second] : round) {
        const std::optional<double> of_first = value(*first), of_second = value(*second);
        if (of_first.has_value() && of_second.has_value()) list.push_back({*of_first, *of_second});
      }
    }
    for (const auto& [name, statistic] : statistics) {
      lines.push_back(Line(absl::StrCat(name, value_name), pairs, statistic, seed));
    }
  }
  return lines;
}

RunResult JoinRounds(const std::vector<const RunResult*>& rounds) {
  RunResult all;
  for (const RunResult* round : rounds) {
    if (all.start_unix_s == 0) all.start_unix_s = round->start_unix_s;
    for (RequestRecord record : round->records) {
      for (double* time_s : {&record.scheduled_s, &record.due_s, &record.sent_s, &record.end_s}) {
        *time_s += all.duration_s;
      }
      if (record.first_s > 0) {
        record.first_s += all.duration_s;
        record.last_s += all.duration_s;
      }
      all.records.push_back(std::move(record));
    }
    all.duration_s += round->duration_s;
    all.cpu_s += round->cpu_s;
    all.max_loop_lag_s = std::max(all.max_loop_lag_s, round->max_loop_lag_s);
    all.interrupted = all.interrupted || round->interrupted;
  }
  return all;
}

std::string CompareTable(const std::string& first, const std::string& second, const std::vector<CompareLine>& lines) {
  std::string out = absl::StrCat("\nA: ", first, "\nB: ", second, "\n");
  absl::StrAppendFormat(&out, "%-20s %12s %12s %8s %20s %8s\n", "", "A", "B", "B / A", "95 % interval", "pairs");
  for (const CompareLine& line : lines) {
    absl::StrAppendFormat(&out, "%-20s %12.2f %12.2f %8.3f %20s %8d%s\n", line.name, line.first, line.second,
                          line.ratio.estimate, absl::StrFormat("%.3f to %.3f", line.ratio.low, line.ratio.high),
                          line.pairs, line.differs() ? "" : "  no difference shown");
  }
  return out;
}

}  // namespace hydrant
