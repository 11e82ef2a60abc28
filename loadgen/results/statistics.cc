#include "loadgen/results/statistics.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "loadgen/load/random.h"

namespace hydrant {
namespace {

constexpr double kConfidence = 0.95;

double Ratio(std::vector<double>* first, std::vector<double>* second, const Statistic& statistic) {
  const double below = statistic(*first);
  return below == 0 ? 0 : statistic(*second) / below;
}

// A bootstrap of few rounds is too narrow, as a normal interval is that divides by n and forgets Student's t: two rounds
// span no more than their own two values. Stretched by both, on the scale of logarithms (Hesterberg 2015, 4.3).
void Widen(size_t rounds, Interval* interval) {
  if (rounds < 2) {
    interval->low = 0;
    interval->high = std::numeric_limits<double>::infinity();
    return;
  }
  if (interval->estimate <= 0) return;
  const double count = static_cast<double>(rounds);
  const double t =
      boost::math::quantile(boost::math::complement(boost::math::students_t(count - 1), (1 - kConfidence) / 2));
  const double z = 1.959964;  // t of infinitely many
  const double stretch = t / z * std::sqrt(count / (count - 1));
  interval->low = interval->estimate * std::pow(interval->low / interval->estimate, stretch);
  interval->high = interval->estimate * std::pow(interval->high / interval->estimate, stretch);
}

}  // namespace

double Mean(std::span<const double> values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double Deviation(std::span<const double> values) {
  if (values.empty()) return 0;
  const double mean = Mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

double PercentileOfSorted(std::span<const double> sorted, double percent) {
  if (sorted.empty()) return 0;
  const double position = percent / 100 * static_cast<double>(sorted.size() - 1);
  const size_t below = std::min(static_cast<size_t>(position), sorted.size() - 1);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (position - static_cast<double>(below));
}

double Percentile(std::vector<double> values, double percent) {
  std::sort(values.begin(), values.end());
  return PercentileOfSorted(values, percent);
}

Distilled Distil(std::vector<double> values, std::span<const double> percents) {
  std::sort(values.begin(), values.end());
  Distilled result;
  result.count = values.size();
  result.mean = Mean(values);
  result.deviation = Deviation(values);
  result.median = PercentileOfSorted(values, 50);
  if (!values.empty()) {
    result.min = values.front();
    result.max = values.back();
  }
  for (const double percent : percents) result.percentiles.push_back(PercentileOfSorted(values, percent));
  return result;
}

double JainIndex(std::span<const double> shares) {
  double sum = 0;
  double squares = 0;
  for (const double share : shares) {
    sum += share;
    squares += share * share;
  }
  return squares == 0 ? 1 : sum * sum / (static_cast<double>(shares.size()) * squares);
}

Interval BootstrapRatio(const std::vector<std::vector<Pair>>& rounds_in, const Statistic& statistic, uint64_t seed,
                        int32_t resamples) {
  std::vector<std::vector<Pair>> rounds;
  std::copy_if(rounds_in.begin(), rounds_in.end(), std::back_inserter(rounds),
               [](const std::vector<Pair>& round) { return !round.empty(); });
  if (rounds.empty()) return {};
  std::vector<double> first;
  std::vector<double> second;
  for (const std::vector<Pair>& round : rounds) {
    for (const Pair& pair : round) {
      first.push_back(pair.first);
      second.push_back(pair.second);
    }
  }
  Interval result;
  result.estimate = Ratio(&first, &second, statistic);
  Random random(seed);
  std::vector<double> ratios;
  for (int32_t i = 0; i < resamples; ++i) {
    first.clear();
    second.clear();
    for (size_t drawn = 0; drawn < rounds.size(); ++drawn) {
      const std::vector<Pair>& round = rounds[static_cast<size_t>(random.Integer(0, std::ssize(rounds) - 1))];
      for (size_t pairs = 0; pairs < round.size(); ++pairs) {
        const Pair& pair = round[static_cast<size_t>(random.Integer(0, std::ssize(round) - 1))];
        first.push_back(pair.first);
        second.push_back(pair.second);
      }
    }
    ratios.push_back(Ratio(&first, &second, statistic));
  }
  std::sort(ratios.begin(), ratios.end());
  result.low = PercentileOfSorted(ratios, 50 * (1 - kConfidence));
  result.high = PercentileOfSorted(ratios, 50 * (1 + kConfidence));
  Widen(rounds.size(), &result);
  return result;
}

}  // namespace hydrant
