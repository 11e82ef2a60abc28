// LoadReporter tells whoever starts the server how much of the model is loaded: on a terminal in a bar that rewrites itself,
// elsewhere in a line now and then. A model that is loaded within a second is not worth a word.
//
// Thread: one at a time. Time is an argument, monotonic microseconds.
#ifndef HYDRANT_SERVER_PROCESS_LOAD_REPORTER_H_
#define HYDRANT_SERVER_PROCESS_LOAD_REPORTER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace hydrant {

// Shows a text in the place of the one before, on the terminal's last line; an empty one takes it away.
using ShowBar = std::function<void(const std::string& bar)>;

struct Loaded {
  int64_t bytes = 0;
  int64_t total_bytes = 0;

  int32_t percent() const;  // rounded down; 100 only where nothing is missing
};

class LoadReporter {
 public:
  // `bar` null: there is no terminal. `line` takes a line, without its end.
  LoadReporter(ShowBar bar, std::function<void(const std::string& line, const Loaded& loaded)> line)
      : bar_(std::move(bar)), line_(std::move(line)) {}
  // Takes the bar away.
  ~LoadReporter() { Finish(); }
  LoadReporter(const LoadReporter&) = delete;
  LoadReporter& operator=(const LoadReporter&) = delete;

  // Time is counted from the first call on.
  void Report(const Loaded& loaded, int64_t now_us);
  // Takes the bar away: somebody else is about to write a line.
  void Finish();

 private:
  ShowBar bar_;
  std::function<void(const std::string&, const Loaded&)> line_;
  std::optional<int64_t> next_us_;  // when the next bar or line is due
  bool shown_ = false;              // a bar is on the terminal
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_LOAD_REPORTER_H_
