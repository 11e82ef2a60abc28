#include "server/process/load_reporter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hydrant {
namespace {

constexpr int64_t kQuietUs = 1'000'000;
constexpr int64_t kBarUs = 100'000;     // as often as an eye follows
constexpr int64_t kLineUs = 5'000'000;  // a log keeps them all
constexpr int32_t kBarWidth = 40;       // with its numbers it fits into the narrowest terminal

int64_t Megabytes(int64_t bytes) { return bytes / 1'000'000; }

std::string Bar(const Loaded& loaded) {
  const auto full = static_cast<size_t>(loaded.percent() * kBarWidth / 100);
  return absl::StrCat("loading [", std::string(full, '#'), std::string(kBarWidth - full, '.'), "] ", loaded.percent(),
                      " % of ", Megabytes(loaded.total_bytes), " MB");
}

}  // namespace

int32_t Loaded::percent() const {
  if (total_bytes <= 0) return 100;
  const double share =
      static_cast<double>(std::clamp<int64_t>(bytes, 0, total_bytes)) / static_cast<double>(total_bytes);
  return bytes >= total_bytes ? 100 : std::min(99, static_cast<int32_t>(share * 100));
}

void LoadReporter::Report(const Loaded& loaded, int64_t now_us) {
  if (!next_us_.has_value()) next_us_ = now_us + kQuietUs;
  if (now_us < *next_us_) return;
  if (bar_ != nullptr) {
    bar_(Bar(loaded));
    shown_ = true;
  } else {
    line_(absl::StrCat("loading the model: ", loaded.percent(), " % of ", Megabytes(loaded.total_bytes), " MB"),
          loaded);
  }
  next_us_ = now_us + (bar_ != nullptr ? kBarUs : kLineUs);
}

void LoadReporter::Finish() {
  if (std::exchange(shown_, false)) bar_("");
}

}  // namespace hydrant
