// Authentication decides who a request comes from, by its Authorization field alone. The tenants' port and the admin
// listener each have one.
//
// Thread: any.
#ifndef HYDRANT_SERVER_TENANTS_AUTHENTICATION_H_
#define HYDRANT_SERVER_TENANTS_AUTHENTICATION_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "api/wire/api_error.h"
#include "server/http/caller.h"
#include "server/tenants/auth_limiter.h"
#include "server/tenants/rotating_keys.h"
#include "server/tenants/tenant_registry.h"

namespace hydrant {

// Any tenant. Errors: 401; 429 for a peer that presented wrong keys too often (auth_limiter.h). The arguments outlive the result;
// `on_failure` may be null.
Authenticate TenantAuthentication(const TenantRegistry& tenants, AuthLimiter& limiter,
                                  std::function<void()> on_failure);

// The operator, or a program of the operator's: whoever presents one of `keys`, or everybody who can reach the listener when there is
// none. Errors: 403 for a tenant's key, else as above.
Authenticate OperatorAuthentication(std::shared_ptr<const RotatingKeys> keys, const TenantRegistry& tenants,
                                    AuthLimiter& limiter, std::function<void()> on_failure);

}  // namespace hydrant

#endif  // HYDRANT_SERVER_TENANTS_AUTHENTICATION_H_
