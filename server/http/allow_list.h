// What the lists of an OriginPolicy may have, beside "*". Another value would be compared with every request and equal to none.
//
// Thread: any (pure functions).
#ifndef HYDRANT_SERVER_HTTP_ALLOW_LIST_H_
#define HYDRANT_SERVER_HTTP_ALLOW_LIST_H_

#include <string_view>

namespace hydrant {

// A name or an address, with or without a port.
bool IsAllowableHost(std::string_view text);

// What browsers send as Origin: null, or SCHEME://HOST[:PORT] and nothing behind it.
bool IsAllowableOrigin(std::string_view text);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_HTTP_ALLOW_LIST_H_
