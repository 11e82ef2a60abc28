// A request head means the same however its bytes are cut on the way.
#include <algorithm>
#include <string_view>

#include "server/http/http_head.h"
#include "tests/fuzz/fuzz.h"

namespace hydrant {
namespace {

struct Outcome {
  HttpProgress progress = HttpProgress::kNeedMore;
  int status = 0;
  HttpHead head;
  size_t consumed = 0;
};

Outcome Read(std::string_view input, size_t piece, const Limits& limits) {
  HttpHeadReader reader(limits);
  Outcome outcome;
  for (size_t size = std::min(piece, input.size());; size = std::min(size + piece, input.size())) {
    outcome.progress = reader.Read(input.substr(0, size));
    if (outcome.progress != HttpProgress::kNeedMore || size == input.size()) break;
  }
  if (outcome.progress == HttpProgress::kRejected) outcome.status = reader.reject().status;
  outcome.head = reader.head();
  outcome.consumed = reader.consumed();
  return outcome;
}

void CheckDone(const Outcome& outcome, std::string_view input, const Limits& limits) {
  const HttpHead& head = outcome.head;
  Require(outcome.consumed <= input.size(), "no more is consumed than came");
  Require(outcome.consumed <= static_cast<size_t>(limits.header_bytes_max) + 2, "a head is bounded");
  Require(head.fields.size() <= static_cast<size_t>(limits.header_fields_max), "fields are bounded");
  Require(head.version_minor == 0 || head.Find("host") != nullptr, "HTTP/1.1 has a Host");
  const auto hosts =
      std::count_if(head.fields.begin(), head.fields.end(), [](const auto& f) { return f.name == "host"; });
  Require(hosts <= 1, "there is one Host");
  for (const HttpField& field : head.fields) {
    Require(field.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos, "a value is one line");
  }
  Require(head.framing != BodyFraming::kChunked || head.Find("content-length") == nullptr, "a body is framed once");
}

}  // namespace

void Fuzz(std::string_view input) {
  static const Limits kLimits;
  const Outcome whole = Read(input, std::max<size_t>(input.size(), 1), kLimits);
  if (whole.progress == HttpProgress::kDone) CheckDone(whole, input, kLimits);
  for (const size_t piece : {size_t{1}, size_t{7}}) {
    const Outcome cut = Read(input, piece, kLimits);
    Require(cut.progress == whole.progress, "cuts do not change the outcome");
    Require(cut.status == whole.status, "cuts do not change why it is refused");
    if (whole.progress != HttpProgress::kDone) continue;
    Require(cut.consumed == whole.consumed, "cuts do not change where the body begins");
    Require(cut.head.method == whole.head.method && cut.head.path == whole.head.path, "cuts do not change the target");
    Require(cut.head.framing == whole.head.framing && cut.head.content_length == whole.head.content_length,
            "cuts do not change the framing");
  }
}

}  // namespace hydrant
