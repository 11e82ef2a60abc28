// A chunked body carries the same bytes however it is cut on the way, and never more than the wire did.
#include <algorithm>
#include <string>
#include <string_view>

#include "server/http/http_head.h"
#include "tests/fuzz/fuzz.h"

namespace hydrant {
namespace {

struct Outcome {
  HttpProgress progress = HttpProgress::kNeedMore;
  int status = 0;
  std::string body;
  size_t consumed = 0;
};

Outcome Decode(std::string_view input, size_t piece, const Limits& limits) {
  ChunkedDecoder decoder(limits);
  Outcome outcome;
  while (outcome.progress == HttpProgress::kNeedMore && outcome.consumed < input.size()) {
    size_t taken = 0;
    const std::string_view part = input.substr(outcome.consumed, piece);
    outcome.progress = decoder.Feed(part, &taken, &outcome.body);
    Require(taken <= part.size(), "no more is taken than came");
    Require(taken == part.size() || outcome.progress != HttpProgress::kNeedMore, "all is taken until the end");
    outcome.consumed += taken;
  }
  if (outcome.progress == HttpProgress::kRejected) outcome.status = decoder.reject().status;
  return outcome;
}

}  // namespace

void Fuzz(std::string_view input) {
  static const Limits kLimits = [] {
    Limits limits;
    limits.body_bytes_max = 4 << 10;  // so that inputs of this size reach it
    return limits;
  }();
  const Outcome whole = Decode(input, std::max<size_t>(input.size(), 1), kLimits);
  Require(whole.body.size() <= input.size(), "a body is no longer than what came");
  Require(whole.progress == HttpProgress::kRejected || whole.body.size() <= static_cast<size_t>(kLimits.body_bytes_max),
          "a body is bounded");
  for (const size_t piece : {size_t{1}, size_t{13}}) {
    const Outcome cut = Decode(input, piece, kLimits);
    Require(cut.progress == whole.progress && cut.status == whole.status, "cuts do not change the outcome");
    if (whole.progress == HttpProgress::kRejected) continue;
    Require(cut.body == whole.body && cut.consumed == whole.consumed, "cuts do not change the body");
  }
}

}  // namespace hydrant
