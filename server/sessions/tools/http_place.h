// HttpPlace is a server that runs, by its own endpoints: those of a tenant's key, or the operator's.
//
// Thread: one at a time.
#ifndef HYDRANT_SERVER_SESSIONS_TOOLS_HTTP_PLACE_H_
#define HYDRANT_SERVER_SESSIONS_TOOLS_HTTP_PLACE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/wire/json_body.h"
#include "server/sessions/tools/http_client.h"
#include "server/sessions/tools/session_place.h"

namespace hydrant {

class HttpPlace : public SessionPlace {
 public:
  // `key`: empty where none is asked for. `is_admin`: it, or the socket, is the operator's: sessions of all tenants.
  HttpPlace(HttpClient client, std::string key, bool is_admin)
      : client_(std::move(client)), key_(std::move(key)), is_admin_(is_admin) {}

  const std::string& name() const override { return client_.url(); }
  absl::StatusOr<std::vector<PlacedSession>> List(const std::string& tenant) override;
  absl::StatusOr<ExportedSession> Export(const std::string& tenant, const std::string& id) override;
  absl::StatusOr<bool> Import(const std::string& tenant, const std::string& file) override;
  absl::StatusOr<MovingSession> ExportState(const std::string& tenant, const std::string& id) override;
  absl::StatusOr<bool> ImportState(const std::string& tenant, const MovingSession& state, std::string* kv) override;
  absl::StatusOr<bool> IsDurable(const std::string& tenant, const std::string& id) override;
  absl::StatusOr<bool> Forget(const std::string& tenant, const std::string& id, uint64_t turn) override;
  absl::Status Purge(const std::string& tenant, const std::string& id) override;
  // Asks for every session: what its checksums say of it.
  absl::StatusOr<VerifyReport> Verify(const std::string& tenant) override;
  absl::Status Close() override { return absl::OkStatus(); }

 private:
  // The path of the sessions, of one of them, or of its state, with the query that names the tenant.
  std::string Target(const std::string& tenant, const std::string& below, std::string query = "") const;
  // Waits where the server says that there is too much going on just now.
  absl::StatusOr<HttpClient::Reply> Ask(std::string_view method, const std::string& target, std::string fields = "",
                                        const HttpClient::Body& body = {}, const HttpClient::Sink* sink = nullptr);
  absl::Status ErrorOf(const HttpClient::Reply& reply) const;
  absl::StatusOr<JsonBody> AskJson(const std::string& target);
  absl::Status ListOf(const std::string& tenant, std::vector<PlacedSession>* sessions);

  HttpClient client_;
  const std::string key_;
  const bool is_admin_;
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SESSIONS_TOOLS_HTTP_PLACE_H_
