// RequestDirectory knows the generations that are open, by the names that they are known by, so that an operator can end
// them.
//
// Thread: any; a short lock at the beginning and the end of a request.
#ifndef HYDRANT_SERVER_FRONTEND_REQUEST_DIRECTORY_H_
#define HYDRANT_SERVER_FRONTEND_REQUEST_DIRECTORY_H_

#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/engine/engine_port.h"

namespace hydrant {

class RequestDirectory {
 private:
  struct Open {
    std::vector<std::string> names;
    int32_t tenant;
    uint64_t first_id;
    int32_t count;
    bool aborted = false;
  };

 public:
  // A place in the directory, for as long as it lives. The directory outlives it.
  class Entry {
   public:
    // `names`: all that a client or an operator may call it; an empty one is none. The engine knows the sequences as [first_id, first_id + count).
    Entry(RequestDirectory& directory, std::vector<std::string> names, int32_t tenant, uint64_t first_id,
          int32_t count);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    bool aborted() const;

   private:
    RequestDirectory& directory_;
    std::list<Open>::iterator place_;
  };

  struct Selection {
    std::vector<std::string> ids;   // names of requests; empty: all
    std::optional<int32_t> tenant;  // nullopt: of any
  };
  // Cancels them. Returns how many requests that were.
  int32_t Abort(const Selection& selection, EnginePort& engine);

 private:
  std::mutex mutex_;
  std::list<Open> open_;  // guarded by mutex_
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_FRONTEND_REQUEST_DIRECTORY_H_
