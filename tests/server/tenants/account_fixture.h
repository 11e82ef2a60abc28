// Accounts of a tenant `a`, and what requests take of them, at one moment.
#ifndef HYDRANT_TESTS_SERVER_TENANTS_ACCOUNT_FIXTURE_H_
#define HYDRANT_TESTS_SERVER_TENANTS_ACCOUNT_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "server/process/clock.h"
#include "server/tenants/tenant_account.h"

namespace hydrant {

class AccountFixture : public testing::Test {
 protected:
  std::shared_ptr<TenantAccount> With(const TenantLimits& limits) const {
    auto account = std::make_shared<TenantAccount>(0, "a");
    account->SetLimits(limits, now_us_);
    return account;
  }
  // Null: refusal_ says why.
  std::shared_ptr<RequestAccount> Take(const std::shared_ptr<TenantAccount>& account, int64_t prompt, int64_t output,
                                       int sequences = 1, double share = 1) {
    refusal_.reset();
    return RequestAccount::TryOpen(
        account, std::vector<RequestAccount::Sequence>(static_cast<size_t>(sequences), {prompt, output}), backlog_,
        share, now_us_, &refusal_);
  }

  const int64_t now_us_ = MonotonicUs();
  Backlog backlog_ = {0, 1000, 0, 10'000, 3};
  std::optional<Refusal> refusal_;
};

}  // namespace hydrant

#endif  // HYDRANT_TESTS_SERVER_TENANTS_ACCOUNT_FIXTURE_H_
