#include "loadgen/report/plot.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace hydrant {
namespace {

// Pixels of the picture and of the margins around the axes.
constexpr double kWidth = 560, kHeight = 280;
constexpr double kLeft = 64, kRight = 16, kTop = 30, kBottom = 46;
constexpr int kTicks = 5;
constexpr size_t kCumulativePoints = 400;
// Okabe and Ito's, which differ for the colour-blind too.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};

// 1, 2 or 5 times a power of ten, so that about kTicks of them reach `max`.
double TickStep(double max) {
  const double rough = max / kTicks;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * power) return factor * power;
  }
  return 10 * power;
}

struct Axes {
  double x_max = 0;
  double y_max = 0;
  double X(double x) const { return kLeft + x / x_max * (kWidth - kLeft - kRight); }
  double Y(double y) const { return kHeight - kBottom - y / y_max * (kHeight - kTop - kBottom); }
};

void AppendText(std::string* svg, double x, double y, const char* anchor, const std::string& text) {
  absl::StrAppendFormat(svg, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>", x, y, anchor,
                        EscapeHtml(text));
}

void AppendAxes(std::string* svg, const PlotSpec& spec, const Axes& axes) {
  const double right = kWidth - kRight;
  const double bottom = kHeight - kBottom;
  const double x_step = TickStep(axes.x_max);
  for (double x = 0; x <= axes.x_max * 1.0001; x += x_step) {
    AppendText(svg, axes.X(x), bottom + 16, "middle", absl::StrCat(x));
  }
  const double y_step = TickStep(axes.y_max);
  for (double y = 0; y <= axes.y_max * 1.0001; y += y_step) {
    absl::StrAppendFormat(svg, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"#ddd\"/>", kLeft, axes.Y(y), right);
    AppendText(svg, kLeft - 6, axes.Y(y) + 4, "end", absl::StrCat(y));
  }
  absl::StrAppendFormat(svg, "<path d=\"M%.1f %.1fV%.1fH%.1f\" fill=\"none\" stroke=\"#333\"/>", kLeft, kTop, bottom,
                        right);
  AppendText(svg, kLeft, 16, "start", absl::StrCat(spec.title, ", ", spec.y_label));
  AppendText(svg, right, kHeight - 8, "end", spec.x_label);
}

void AppendSeries(std::string* svg, const Series& series, const Axes& axes, const char* colour) {
  if (series.line) {
    absl::StrAppend(svg, "<polyline fill=\"none\" stroke-width=\"1.5\" stroke=\"", colour, "\" points=\"");
    for (const auto& [x, y] : series.points) absl::StrAppendFormat(svg, "%.1f,%.1f ", axes.X(x), axes.Y(y));
    absl::StrAppend(svg, "\"/>");
    return;
  }
  absl::StrAppend(svg, "<g fill=\"", colour, "\" fill-opacity=\"0.5\">");
  for (const auto& [x, y] : series.points) {
    absl::StrAppendFormat(svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2\"/>", axes.X(x), axes.Y(y));
  }
  absl::StrAppend(svg, "</g>");
}

}  // namespace

std::string EscapeHtml(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string Plot(const PlotSpec& spec, const std::vector<Series>& series) {
  Axes axes;
  for (const Series& one : series) {
    for (const auto& [x, y] : one.points) {
      axes.x_max = std::max(axes.x_max, x);
      axes.y_max = std::max(axes.y_max, y);
    }
  }
  const bool empty = axes.x_max == 0 && axes.y_max == 0;
  if (axes.x_max == 0) axes.x_max = 1;
  if (axes.y_max == 0) axes.y_max = 1;
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
      "font-family=\"sans-serif\" font-size=\"11\" fill=\"#333\">",
      kWidth, kHeight, kWidth, kHeight);
  AppendAxes(&svg, spec, axes);
  if (empty) AppendText(&svg, kWidth / 2, kHeight / 2, "middle", "no samples");
  double legend_x = kLeft;
  for (size_t i = 0; i < series.size(); ++i) {
    const char* const colour = kColours[i % std::size(kColours)];
    if (!series[i].points.empty()) AppendSeries(&svg, series[i], axes, colour);
    if (series.size() < 2) continue;
    absl::StrAppendFormat(&svg, "<rect x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\" fill=\"%s\"/>", legend_x,
                          kHeight - 17, colour);
    AppendText(&svg, legend_x + 14, kHeight - 8, "start", series[i].name);
    legend_x += 24 + 6.5 * static_cast<double>(series[i].name.size());
  }
  return svg + "</svg>";
}

Series Cumulative(std::string name, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  Series series{std::move(name), {}, true};
  const size_t count = std::min(values.size(), kCumulativePoints);
  for (size_t i = 1; i <= count; ++i) {
    const size_t rank = i * values.size() / count;  // 1 to the number of values
    series.points.emplace_back(values[rank - 1],
                               100.0 * static_cast<double>(rank) / static_cast<double>(values.size()));
  }
  return series;
}

Series PerSecond(std::string name, std::span<const double> values) {
  Series series{std::move(name), {}, true};
  for (size_t i = 0; i < values.size(); ++i) series.points.emplace_back(static_cast<double>(i) + 0.5, values[i]);
  return series;
}

}  // namespace hydrant
