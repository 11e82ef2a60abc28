// HttpExchange is one request and its response as a handler sees it.
//
// Thread: the connection's strand (Waker's result aside: any).
#ifndef HYDRANT_SERVER_HTTP_HTTP_EXCHANGE_H_
#define HYDRANT_SERVER_HTTP_HTTP_EXCHANGE_H_

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/wire/api_error.h"
#include "server/http/caller.h"
#include "server/http/http_head.h"
#include "server/http/http_message.h"
#include "server/http/request_place.h"
#include "server/http/response_stream.h"
#include "server/process/request_notes.h"

namespace hydrant {

// The response that carries `error`.
HttpResponse ErrorResponse(const ApiError& error);
// Has the response speak `dialect`: the fields of its head, and what it tells if that is an error.
void SpeakIn(Dialect dialect, std::string_view request_id, HttpResponse* response);

class HttpExchange {
 public:
  // `stream` and `client`, the address of who sends the request, outlive the exchange.
  HttpExchange(ResponseStream& stream, HttpHead head, std::string_view client);
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  const HttpHead& head() const { return head_; }
  const std::string& body() const { return body_; }
  // What the path has in the place of the `i`th name of its route's (HttpRoute::path), decoded; empty where that has fewer.
  std::string path_value(size_t i) const { return i < path_values_.size() ? path_values_[i] : std::string(); }
  // The client's X-Request-Id when it is usable, else one of our own.
  const std::string& request_id() const { return request_id_; }
  // The tenant that asks; null on an open route, and for the operator.
  const Caller& caller() const { return caller_; }
  Dialect dialect() const { return dialect_; }
  std::string_view client() const { return client_; }  // an address as text: the peer's, or of somebody behind it
  int64_t arrival_us() const { return arrival_us_; }   // monotonic; when the head was complete
  int status() const { return status_; }               // 0: no response yet

  // A whole response. REQUIRES: no response yet.
  boost::asio::awaitable<void> Respond(HttpResponse response);
  boost::asio::awaitable<void> RespondError(ApiError error);

  // A response in pieces: the head travels with the first piece. Each Write is one socket write when the reader keeps
  // up; it returns false, and so does every later one, when the client is gone or did not take the bytes within
  // stream_stall_s. REQUIRES: no response yet; EndStream last.
  // `bytes`: of all pieces together; -1: not known. To a HEAD no piece is written.
  void BeginStream(HttpResponse head, int64_t bytes = -1);
  boost::asio::awaitable<bool> Write(std::string_view piece);
  boost::asio::awaitable<void> EndStream();
  // In its place: the rest is not to be had, which the end of the connection says.
  void CutStream() { stream_.CloseAfterResponse(); }
  // ResponseStream's. REQUIRES: a route that reads its body by itself.
  boost::asio::awaitable<BodyProgress> ReadBodyPiece(std::string* piece);

  // ResponseStream's.
  void WatchClient(HalfClosed means) { stream_.WatchClient(means); }
  bool client_gone() const { return stream_.client_gone(); }
  boost::asio::awaitable<void> WaitForWake(int64_t until_us = kNever) { return stream_.WaitForWake(until_us); }
  std::function<void()> Waker() { return stream_.Waker(); }

  // The place that the request holds from its head on; null for a route that admits everything. Respond gives it back
  // once the rest of the answer is in the kernel's buffers, so that the next request of a client that waited for it
  // finds it free.
  void SetPlace(std::unique_ptr<RequestPlace> place) { place_ = std::move(place); }
  RequestPlace* place() { return place_.get(); }
  // The body is no longer needed.
  void DropBody();
  // The same as Respond's end, of a stream: before its last piece is written.
  void ClosePlace();

  // The fields of its line in the log.
  RequestNotes& notes() { return notes_; }

  // For the reader of the request: what it found. A response that leaves bytes of its request unread ends the
  // connection.
  void SetOriginAdmitted() { origin_admitted_ = true; }
  void SetReplica(std::string_view id) { replica_ = id; }  // which outlives the exchange
  void SetDialect(Dialect dialect) { dialect_ = dialect; }
  void SetPathValues(std::vector<std::string> values) { path_values_ = std::move(values); }
  void SetCaller(Caller caller) { caller_ = std::move(caller); }
  std::string& body_so_far() { return body_; }
  void SetBodyRead(bool read) { body_read_ = read; }
  bool body_read() const { return body_read_; }

 private:
  HttpResponse WithCommonFields(HttpResponse response) const;

  ResponseStream& stream_;
  HttpHead head_;
  const std::string_view client_;
  std::string_view replica_;  // that answers; empty: they do not say
  std::string body_;
  std::string request_id_;
  std::vector<std::string> path_values_;
  Caller caller_;
  RequestNotes notes_;
  std::unique_ptr<RequestPlace> place_;
  int64_t arrival_us_ = 0;
  int status_ = 0;
  bool body_read_ = false;
  Dialect dialect_ = Dialect::kOpenAi;
  bool origin_admitted_ = false;  // a page of the Origin that it names may read the response
  bool streaming_ = false;
  bool chunked_ = false;     // the stream's pieces travel as chunks
  bool head_only_ = false;   // a HEAD asked for it
  std::string stream_head_;  // not sent yet
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_HTTP_HTTP_EXCHANGE_H_
