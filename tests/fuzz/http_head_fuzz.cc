// A request head means the same however its bytes are cut on the way.
#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "server/http/http_head.h"
#include "server/http/trusted_proxies.h"
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

// Whatever a head says of where it comes from, the client has an address, and one that is no proxy has its own.
void CheckClient(const HttpHead& head) {
  using Field = TrustedProxies::Field;
  std::string wrong;
  for (const Field field : {Field::kXForwardedFor, Field::kForwarded}) {
    const TrustedProxies proxies = *TrustedProxies::Parse({"10.0.0.0/8", "2001:db8::/32"}, field, &wrong);
    Require(proxies.ClientOf("192.0.2.1", head) == "192.0.2.1", "nobody but a proxy is believed");
    const std::string client = proxies.ClientOf("10.0.0.1", head);
    in6_addr bits{};
    Require(inet_pton(AF_INET, client.c_str(), &bits) == 1 || inet_pton(AF_INET6, client.c_str(), &bits) == 1,
            "a client has an address");
    // What a client wrote itself stands before what its proxy appends.
    HttpHead appended = head;
    const bool forwarded = field == Field::kForwarded;
    appended.fields.push_back(
        {forwarded ? "forwarded" : "x-forwarded-for", forwarded ? "for=198.51.100.7" : "198.51.100.7"});
    Require(proxies.ClientOf("10.0.0.1", appended) == "198.51.100.7", "a field of its own hides nobody");
    for (HttpField& one : appended.fields)
      one.value.append(forwarded ? ", for=\"[2001:db9::7]:80\"" : ", 198.51.100.7");
    appended.fields.pop_back();
    if (head.Find(forwarded ? "forwarded" : "x-forwarded-for") == nullptr) continue;
    Require(proxies.ClientOf("10.0.0.1", appended) == (forwarded ? "2001:db9::7" : "198.51.100.7"),
            "nothing before it swallows what a proxy appends");
  }
}

}  // namespace

void Fuzz(std::string_view input) {
  static const Limits kLimits;
  const Outcome whole = Read(input, std::max<size_t>(input.size(), 1), kLimits);
  if (whole.progress == HttpProgress::kDone) {
    CheckDone(whole, input, kLimits);
    CheckClient(whole.head);
  }
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
