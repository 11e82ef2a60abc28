// Plots as SVG text that stands on its own: no script, no style sheet, no font from elsewhere.
//
// Thread: any (pure functions).
#ifndef HYDRANT_LOADGEN_REPORT_PLOT_H_
#define HYDRANT_LOADGEN_REPORT_PLOT_H_

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hydrant {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x ascending for lines
  bool line = true;                               // false: dots
};

struct PlotSpec {
  std::string title;
  std::string x_label;
  std::string y_label;
};

// <svg>…</svg>. Axes start at 0. Series beyond the sixth share colours. Without points: axes that say so.
std::string Plot(const PlotSpec& spec, const std::vector<Series>& series);

// The empirical distribution function of `values` in percent, with at most 400 points.
Series Cumulative(std::string name, std::vector<double> values);
// values[i] at x = i + 0.5.
Series PerSecond(std::string name, std::span<const double> values);

// & < > " as entities.
std::string EscapeHtml(const std::string& text);

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_REPORT_PLOT_H_
