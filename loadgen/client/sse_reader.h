// Cuts a byte stream into server-sent events (the WHATWG's rules: `data:` lines up to a blank line; comments and other
// fields are skipped; CR LF is LF). Works in place: an event that lies whole in the bytes given, on one data line, is
// handed on without a copy, which is every event of every server when the reader keeps up.
//
// Thread: any (an instance belongs to one stream).
#ifndef HYDRANT_LOADGEN_CLIENT_SSE_READER_H_
#define HYDRANT_LOADGEN_CLIENT_SSE_READER_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace hydrant {

class SseReader {
 public:
  // No server sends an event of 8 MiB; what does is not sending events.
  static constexpr size_t kEventBytesMax = 8 << 20;

  // Calls `sink` with the data of every event that `bytes` completes; the view is valid during the call. Returns false,
  // and takes nothing any more, once an event is longer than kEventBytesMax.
  template <typename Sink>
  bool Feed(std::string_view bytes, Sink&& sink) {
    if (overflowed_) return false;
    const bool in_place = pending_.empty();
    if (!in_place) pending_.append(bytes);
    std::string_view rest = in_place ? bytes : std::string_view(pending_);
    std::string_view data;
    while (Next(&rest, &data)) {
      if (has_data_) sink(data);
    }
    // What is left begins an event. `rest` may lie in pending_.
    pending_ = in_place ? std::string(rest) : pending_.substr(pending_.size() - rest.size());
    overflowed_ = pending_.size() > kEventBytesMax;
    return !overflowed_;
  }

 private:
  // Takes the next whole event off the front; false: there is none. has_data_ says whether it had a data line.
  bool Next(std::string_view* rest, std::string_view* data);

  std::string pending_;
  std::string joined_;  // the data of an event with several data lines
  bool has_data_ = false;
  bool overflowed_ = false;
};

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_CLIENT_SSE_READER_H_
