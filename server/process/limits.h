// Limits is every capacity of the server in one place. Whatever is not here has no size that a client or a
// configuration could influence. DeriveLimits does the arithmetic; --log-level debug logs everything here.
#ifndef HYDRANT_SERVER_PROCESS_LIMITS_H_
#define HYDRANT_SERVER_PROCESS_LIMITS_H_

#include <cstdint>

#include "api/wire/limits.h"

namespace hydrant {

// Names of tenants a process may ever have, those of earlier configurations included: each has series of metrics of its
// own, and all of them are walked when /metrics is rendered.
inline constexpr int32_t kTenantsMax = 256;

// What one request body may hold (RequestLimits) is part of it: readers of bodies are handed that part.
struct Limits : RequestLimits {
  // --- HTTP ---------------------------------------------------------------------------------------------------------
  int32_t header_bytes_max = 8 << 10;  // request line and fields; also a chunked body's trailer
  int32_t header_fields_max = 100;
  int32_t uri_bytes_max = 4 << 10;
  int64_t body_bytes_max = 8 << 20;
  int64_t held_bytes_max = 256 << 20;  // bodies on their way in and answers on their way out, of all requests
  double header_timeout_s = 10;        // first byte (or accept) to the end of the header block: a total, not per read
  double body_timeout_s = 30;          // end of the header block to the end of the body
  double body_grace_s = 10;            // of it; then what has come must be what this rate would have brought
  double body_bytes_per_s_min = 16 << 10;
  // That a client which has ended its side is waited with for what it asked the disk for.
  double half_closed_s = 10;
  double keepalive_timeout_s = 60;  // between requests of one connection
  int32_t connections_max = 10'000;
  int32_t connections_per_address_max = 0;  // 0: a quarter of those, and no bound for this host's own
  double unkeyed_keepalive_timeout_s = 10;  // the same of a connection that has shown no valid key
  // Pipelined bytes accepted while a generation runs; a client that sends more has its connection ended.
  int32_t pipelined_bytes_max = 64 << 10;

  // --- streams ------------------------------------------------------------------------------------------------------
  // The kernel takes 1.6-3.9 MB of an unread stream when left alone, and slow readers stay invisible.
  int32_t send_buffer_bytes = 64 << 10;
  int64_t stream_buffer_bytes_max = 256 << 10;  // unsent events of one request; then it is paused
  double stream_stall_s = 30;                   // a paused or unread response is ended after this long
  double stream_quiet_s = 5;  // then a stream that has nothing to say writes a comment; proxies cut idle ones
  double answer_bytes_per_s_min = 32 << 10;  // beyond that, of a long answer as a whole
  // Keep-alive probes find a peer that vanished: 20 s idle + 3 probes 10 s apart = 50 s <= 60 s.
  int32_t tcp_keepalive_idle_s = 20;
  int32_t tcp_keepalive_interval_s = 10;
  int32_t tcp_keepalive_probes = 3;
  int32_t tcp_user_timeout_ms = 60'000;

  // --- requests -----------------------------------------------------------------------------------------------------
  // From a request's head: to the end of its answer, and to the admission of its first sequence. 0: no limit.
  double request_timeout_s = 0;
  double queue_timeout_s = 0;
  // Log-probabilities that one response may hold at once: positions x (the token's own and the candidates). Each costs
  // some 80 bytes until the response is out, so 80 MiB; 180,000 positions with five candidates.
  int64_t logprobs_kept_max = 1 << 20;
  // `max_tokens` with rolling positions, which the context does not bound: a day of one stream at 12 tokens per second.
  int32_t rolling_tokens_max = 1 << 20;

  // --- engine -------------------------------------------------------------------------------------------------------
  int32_t sequences_max = 256;            // in progress at once: rows of device state
  int32_t batch_tokens_max = 2048;        // tokens of one step
  int32_t context_max = 0;                // prompt + generated tokens of one sequence; what a rolling one holds at once
  int32_t blocks = 0;                     // of 16 slots
  int32_t spare_score_blocks = 0;         // score blocks beyond the blocks' own: score snapshots and sharers' scores
  int64_t swap_blocks = 0;                // of host memory for sequences that step aside
  int32_t inbox_max = 4096;               // submitted jobs not yet seen by the engine
  int32_t waiting_sequences_max = 16384;  // beyond `sequences_max`; the largest request has prompts_max x n_max

  // Prompt tokens that a request computes, each counted once per sample: as many as a prompt of a full context can make.
  int64_t request_tokens_max() const { return int64_t{n_max} * context_max; }
  // Sequences of one request; more could never be queued.
  int64_t request_sequences_max() const { return int64_t{sequences_max} + waiting_sequences_max; }

  // --- sessions -----------------------------------------------------------------------------------------------------
  int64_t parked_blocks = 0;              // KV of sessions between their turns, in blocks' worth of memory
  int32_t sessions_max = 1 << 16;         // of all tenants; about 500 bytes each
  int64_t session_bytes_max = 256 << 20;  // of all sessions' tokens and texts
  double session_ttl_s = 86400;           // since the last turn; 0: none expires
  double session_read_timeout_s = 10;     // that a turn waits for its KV from the disk

  double engine_stall_s = 10;  // no finished step for this long while there is work: /health says 503
};

}  // namespace hydrant

#endif  // HYDRANT_SERVER_PROCESS_LIMITS_H_
