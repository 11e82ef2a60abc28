// ConnectionTable has the open connections of a listener: how many there are, how many from each address, and which of them are
// idle, the longest first.
//
// Thread: any; a short lock.
//
// Invariants
//  1. There are never more than connections_max, nor more from one address than it may have. A client that comes through a trusted
//     proxy has a connection of its own, in this sense, while a request of it is under way; the proxy may have all of them.
//  2. Nobody is kept out by connections that do nothing: from kCrowded of the cap on, each that comes closes the one that has been
//     idle longest.
//  3. Beyond that there are kSpare places, an eighth of them for each address, for connections that ask whether the server lives: whoever
//     asks that would end a server that has too many connections, and all that runs in it.
#ifndef HYDRANT_SERVER_HTTP_CONNECTION_TABLE_H_
#define HYDRANT_SERVER_HTTP_CONNECTION_TABLE_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "server/process/limits.h"

namespace hydrant {

class ConnectionTable {
 public:
  ConnectionTable() = default;
  ConnectionTable(const ConnectionTable&) = delete;
  ConnectionTable& operator=(const ConnectionTable&) = delete;

  static constexpr int32_t kSpare = 32;

  // A connection's place in the table, which outlives it.
  class Place {
   public:
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    // `close` ends the connection if it is still idle by then; called on any thread, under the table's lock. Before SetIdle.
    void OnCrowded(std::function<void()> close) { close_ = std::move(close); }
    // Whether the connection waits for a request of which nothing has come.
    void SetIdle(bool idle);
    // Whether it is for asking if the server lives, and for nothing else.
    bool spare() const { return count_ == &table_.spare_; }

   private:
    friend class ConnectionTable;
    Place(ConnectionTable& table, std::string group, int64_t* count)
        : table_(table), group_(std::move(group)), count_(count) {}

    ConnectionTable& table_;
    const std::string group_;
    int64_t* const count_;  // what it is one of; null: nothing
    std::function<void()> close_;
    // Guarded by the table's lock.
    std::list<Place*> node_{this};                          // lent to the table while the connection is idle
    const std::list<Place*>::iterator at_ = node_.begin();  // stays the same wherever the node is
    bool idle_ = false;
  };

  // A place for a connection from `address` (PeerAddress); null: there is none. `proxy`: it is a trusted one.
  std::unique_ptr<Place> TryAdd(std::string_view address, const Limits& limits, bool proxy = false);
  // A spare place for one that there is no place for; null: there is none.
  std::unique_ptr<Place> TryAddSpare(std::string_view address, const Limits& limits, bool proxy = false);
  // A place for a request of the client at `address`, which came through a proxy; null: there is none.
  std::unique_ptr<Place> TryAddClient(std::string_view address, const Limits& limits);

  int64_t size() const;

 private:
  void CloseLongestIdle();                                                             // REQUIRES: mutex_ held
  std::unique_ptr<Place> AddToGroup(std::string group, int32_t most, int64_t* count);  // REQUIRES: mutex_ held

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  int64_t count_ = 0;  // without the spare ones
  int64_t spare_ = 0;
  absl::flat_hash_map<std::string, int32_t> by_group_;
  std::list<Place*> idle_;  // the one that has been idle longest is first
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_HTTP_CONNECTION_TABLE_H_
