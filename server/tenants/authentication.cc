#include "server/tenants/authentication.h"

#include <optional>
#include <utility>

#include "server/http/peer_address.h"
#include "server/process/clock.h"

namespace hydrant {
namespace {

ApiError Failure(const std::string* authorization, AuthLimiter& limiter, std::string_view peer,
                 const std::function<void()>& on_failure) {
  if (on_failure) on_failure();
  if (authorization == nullptr) return Unauthorized();  // who presents no key guesses none
  const int32_t wait_s = limiter.Fail(PeerGroup(peer), MonotonicUs());
  if (wait_s == 0) return Unauthorized();
  return RateLimited("Too many requests without a valid API key came from this address.", "too_many_auth_failures",
                     wait_s);
}

}  // namespace

Authenticate TenantAuthentication(const TenantRegistry& tenants, AuthLimiter& limiter,
                                  std::function<void()> on_failure) {
  return [&tenants, &limiter, on_failure = std::move(on_failure)](const std::string* authorization,
                                                                  std::string_view peer) -> ApiResult<Caller> {
    Caller caller = tenants.table()->Find(authorization);
    if (caller == nullptr) return Failure(authorization, limiter, peer, on_failure);
    return caller;
  };
}

Authenticate OperatorAuthentication(std::shared_ptr<const RotatingKeys> keys, const TenantRegistry& tenants,
                                    AuthLimiter& limiter, std::function<void()> on_failure) {
  return [keys = std::move(keys), &tenants, &limiter, on_failure = std::move(on_failure)](
             const std::string* authorization, std::string_view peer) -> ApiResult<Caller> {
    if (keys->size() == 0) return Caller();
    const std::optional<std::string_view> token = authorization == nullptr ? std::nullopt : BearerToken(*authorization);
    if (token.has_value() && keys->Has(*token)) return Caller();
    if (token.has_value() && tenants.table()->HasKey(*token)) {
      return Forbidden("This needs the operator's key, not a tenant's.", "admin_key_required");
    }
    return Failure(authorization, limiter, peer, on_failure);
  };
}

}  // namespace hydrant
