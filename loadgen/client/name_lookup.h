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

// What the machine is configured to do: files, name servers.
absl::StatusOr<Endpoints> SystemLookup(const std::string& host, uint16_t port);

// What `lookup` says if it says so within `timeout_s`; else DEADLINE_EXCEEDED. Nothing can end a lookup of the system, so it runs
// in a thread of its own, whose answer nobody reads once the deadline has passed: the thread ends when the lookup does.
absl::StatusOr<Endpoints> LookupWithin(const NameLookup& lookup, const std::string& host, uint16_t port,
                                       double timeout_s);

}  // namespace hydrant

#endif  // HYDRANT_LOADGEN_CLIENT_NAME_LOOKUP_H_
