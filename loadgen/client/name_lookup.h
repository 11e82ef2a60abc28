// The addresses behind a host's name, within a deadline.
//
// Thread: any (blocks).
#ifndef HYDRANT_LOADGEN_CLIENT_NAME_LOOKUP_H_
#define HYDRANT_LOADGEN_CLIENT_NAME_LOOKUP_H_

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace hydrant {

using Endpoints = std::vector<boost::asio::ip::tcp::endpoint>;

// Looks a name up, for as long as that takes. Errors: UNAVAILABLE, one line.
using NameLookup = std::function<absl::StatusOr<Endpoints>(const std::string& host, uint16_t port)>;

// Asks the system's resolver: files and name servers, as the machine is configured.
absl::StatusOr<Endpoints> SystemLookup(const std::string& host, uint16_t port);

// The result of `lookup` if it comes within `timeout_s`; else DEADLINE_EXCEEDED. A lookup of the system cannot be
// cancelled, so it runs in a thread of its own. After the deadline its result is dropped; the thread ends when the
// lookup does.
absl::StatusOr<Endpoints> LookupWithin(const NameLookup& lookup, const std::string& host, uint16_t port,
                                       double timeout_s);

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_CLIENT_NAME_LOOKUP_H_
