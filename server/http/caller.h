// Caller is who a request comes from. HTTP carries it to the handlers and knows no more of it; server/tenants decides.
#ifndef HYDRANT_SERVER_HTTP_CALLER_H_
#define HYDRANT_SERVER_HTTP_CALLER_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "api/wire/api_error.h"

namespace hydrant {

struct TenantEntry;  // server/tenants/tenant_registry.h

// A tenant, or null for the operator.
using Caller = std::shared_ptr<const TenantEntry>;

// `authorization` is null when the field is missing; `peer` is the address as text.
using Authenticate = std::function<ApiResult<Caller>(const std::string* authorization, std::string_view peer)>;

}  // namespace hydrant

#endif  // HYDRANT_SERVER_HTTP_CALLER_H_
