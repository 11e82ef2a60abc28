#include "server/metrics/sampled_series.h"

namespace hydrant {
namespace {

constexpr char kWaitingByReason[] =
    "Sequences that wait. capacity: for KV blocks or a row; deferred: for the tenant's own blocks_max, or for /resume.";
constexpr char kBySource[] = "Prompt tokens by the source of their KV.";
constexpr char kBlocks[] = "Blocks of the KV pool by state.";
constexpr char kFreed[] = "Blocks returned to the pool, by cause.";
constexpr char kAccepted[] = "Guesses that were right, by their places in their steps.";
constexpr char kSwaps[] = "Sequences that stepped aside whole (out), and came back (in).";
constexpr char kSessions[] =
    "Sessions by state: busy (a turn is in progress), parked (KV outside the pool), cold (tokens only).";

template <FreeCause kCause>
double Freed(const Scrape& s) {
  return static_cast<double>(s.engine.scheduler.freed_blocks[static_cast<size_t>(kCause)]);
}

template <int32_t kPosition>
double Accepted(const Scrape& s) {
  static_assert(kPosition < kDraftsPerRowMax);
  return static_cast<double>(s.engine.scheduler.accepted_per_position[kPosition]);
}

constexpr SampledSeries<Scrape> kEngineSeries[] = {
    {"vllm:num_requests_running", "Sequences in the execution batch.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.running); }},
    {"vllm:num_requests_waiting", "Sequences that wait to be admitted.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.waiting); }},
    {"vllm:num_requests_waiting_by_reason", kWaitingByReason, "reason", "capacity",
     [](const Scrape& s) { return static_cast<double>(s.engine.waiting - s.waiting_deferred()); }},
    {"vllm:num_requests_waiting_by_reason", kWaitingByReason, "reason", "deferred",
     [](const Scrape& s) { return static_cast<double>(s.waiting_deferred()); }},
    {"vllm:kv_cache_usage_perc", "KV blocks in use; 1 means all.", nullptr, nullptr,
     [](const Scrape& s) { return s.kv_usage(); }},
    {"vllm:gpu_cache_usage_perc", "The former name of vllm:kv_cache_usage_perc.", nullptr, nullptr,
     [](const Scrape& s) { return s.kv_usage(); }},
    {"vllm:prompt_tokens_total", "Prompt tokens processed.", nullptr, nullptr,
     [](const Scrape& s) {
       return static_cast<double>(s.engine.scheduler.prompt_tokens + s.engine.scheduler.prefix_hits +
                                  s.engine.scheduler.restored_tokens);
     }},
    {"vllm:generation_tokens_total", "Tokens generated.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.scheduler.generated_tokens); }},
    {"vllm:prompt_tokens_cached_total", "Prompt tokens that did not have to be computed.", nullptr, nullptr,
     [](const Scrape& s) {
       return static_cast<double>(s.engine.scheduler.prefix_hits + s.engine.scheduler.restored_tokens);
     }},
    {"vllm:prompt_tokens_by_source_total", kBySource, "source", "local_compute",
     [](const Scrape& s) { return static_cast<double>(s.engine.scheduler.prompt_tokens); }},
    {"vllm:prompt_tokens_by_source_total", kBySource, "source", "local_cache_hit",
     [](const Scrape& s) { return static_cast<double>(s.engine.scheduler.prefix_hits); }},
    {"vllm:prompt_tokens_by_source_total", kBySource, "source", "external_kv_transfer",
     [](const Scrape& s) { return static_cast<double>(s.engine.scheduler.restored_tokens); }},
    {"vllm:prefix_cache_queries_total", "Tokens looked up in the prefix cache.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.scheduler.prefix_queries); }},
    {"vllm:prefix_cache_hits_total", "Tokens found in the prefix cache.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.scheduler.prefix_hits); }},
    {"vllm:gpu_prefix_cache_queries_total", "The former name of vllm:prefix_cache_queries.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.scheduler.prefix_queries); }},
    {"vllm:gpu_prefix_cache_hits_total", "The former name of vllm:prefix_cache_hits.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.scheduler.prefix_hits); }},
    {"vllm:spec_decode_num_drafts_total", "Steps of sequences with tokens that were guessed.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.scheduler.drafts); }},
    {"vllm:spec_decode_num_draft_tokens_total", "Tokens that were computed on a guess.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.scheduler.draft_tokens); }},
    {"vllm:spec_decode_num_accepted_tokens_total", "Guesses that were right.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.scheduler.drafts_accepted); }},
    {"vllm:spec_decode_num_accepted_tokens_per_pos_total", kAccepted, "position", "0", Accepted<0>},
    {"vllm:spec_decode_num_accepted_tokens_per_pos_total", kAccepted, "position", "1", Accepted<1>},
    {"vllm:spec_decode_num_accepted_tokens_per_pos_total", kAccepted, "position", "2", Accepted<2>},
    {"vllm:spec_decode_num_accepted_tokens_per_pos_total", kAccepted, "position", "3", Accepted<3>},
    {"vllm:spec_decode_num_accepted_tokens_per_pos_total", kAccepted, "position", "4", Accepted<4>},
    {"vllm:spec_decode_num_accepted_tokens_per_pos_total", kAccepted, "position", "5", Accepted<5>},
    {"vllm:spec_decode_num_accepted_tokens_per_pos_total", kAccepted, "position", "6", Accepted<6>},
    {"vllm:spec_decode_num_accepted_tokens_per_pos_total", kAccepted, "position", "7", Accepted<7>},
    {"vllm:spec_decode_num_accepted_tokens_per_pos_total", kAccepted, "position", "8", Accepted<8>},
    {"vllm:spec_decode_num_accepted_tokens_per_pos_total", kAccepted, "position", "9", Accepted<9>},
    {"vllm:spec_decode_num_accepted_tokens_per_pos_total", kAccepted, "position", "10", Accepted<10>},
    {"vllm:spec_decode_num_accepted_tokens_per_pos_total", kAccepted, "position", "11", Accepted<11>},
    {"vllm:spec_decode_num_accepted_tokens_per_pos_total", kAccepted, "position", "12", Accepted<12>},
    {"vllm:spec_decode_num_accepted_tokens_per_pos_total", kAccepted, "position", "13", Accepted<13>},
    {"vllm:spec_decode_num_accepted_tokens_per_pos_total", kAccepted, "position", "14", Accepted<14>},
    {"vllm:spec_decode_num_accepted_tokens_per_pos_total", kAccepted, "position", "15", Accepted<15>},
    {"vllm:num_preemptions_total", "Sequences preempted.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.scheduler.swaps_out); }},
    {"hydrant_kv_blocks", kBlocks, "state", "free",
     [](const Scrape& s) { return static_cast<double>(s.engine.blocks_free); }},
    {"hydrant_kv_blocks", kBlocks, "state", "used",
     [](const Scrape& s) { return static_cast<double>(s.engine.blocks_used); }},
    {"hydrant_kv_blocks", kBlocks, "state", "cached",
     [](const Scrape& s) { return static_cast<double>(s.engine.blocks_cached); }},
    {"hydrant_prefix_snapshots", "Score snapshots of cached prefixes.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.snapshots); }},
    {"hydrant_prefix_snapshot_bytes", "Memory of score snapshots.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.score_blocks_in_snapshots * s.score_block_bytes); }},
    {"hydrant_freed_blocks_total", kFreed, "cause", "prefill", Freed<FreeCause::kPrefill>},
    {"hydrant_freed_blocks_total", kFreed, "cause", "shrink", Freed<FreeCause::kShrink>},
    {"hydrant_freed_blocks_total", kFreed, "cause", "periodic", Freed<FreeCause::kPeriodic>},
    {"hydrant_freed_blocks_total", kFreed, "cause", "finish", Freed<FreeCause::kFinish>},
    {"hydrant_freed_blocks_total", kFreed, "cause", "cancel", Freed<FreeCause::kCancel>},
    {"hydrant_freed_blocks_total", kFreed, "cause", "shared", Freed<FreeCause::kShared>},
    {"hydrant_freed_blocks_total", kFreed, "cause", "swap", Freed<FreeCause::kSwap>},
    {"hydrant_freed_blocks_total", kFreed, "cause", "draft", Freed<FreeCause::kDraft>},
    {"hydrant_shrinks_total",
     "Budgets lowered, down to a floor that their requests agreed to, for a request that waited.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.scheduler.shrinks); }},
    {"hydrant_swaps_total", kSwaps, "direction", "out",
     [](const Scrape& s) { return static_cast<double>(s.engine.scheduler.swaps_out); }},
    {"hydrant_swaps_total", kSwaps, "direction", "in",
     [](const Scrape& s) { return static_cast<double>(s.engine.scheduler.swaps_in); }},
    {"hydrant_swaps_lost_total", "Sequences that ended because there was no memory to step aside to.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.scheduler.swaps_lost); }},
    {"hydrant_swapped", "Sequences that stand aside until there is room in the pool.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.swapped); }},
    {"hydrant_swapped_bytes", "Host memory with their KV.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.swapped_blocks * s.kv_block_bytes); }},
    {"hydrant_parks_total", "Turns at whose end the session's KV moved out of the pool.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.scheduler.parks); }},
    {"hydrant_parks_lost_total", "Parked KV dropped to make room for other sessions, or for lack of memory.", nullptr,
     nullptr, [](const Scrape& s) { return static_cast<double>(s.engine.parked_lost); }},
    {"hydrant_parks_moved_total", "Of it, what is in a file: the session's next turn reads it.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.kv.moved); }},
    {"hydrant_restores_total", "Turns that began with the session's parked KV moved back into the pool.", nullptr,
     nullptr, [](const Scrape& s) { return static_cast<double>(s.engine.scheduler.restores); }},
    {"hydrant_parked_blocks", "Parked KV outside the pool, in blocks.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.parked_blocks); }},
    {"hydrant_sessions", kSessions, "state", "busy",
     [](const Scrape& s) { return static_cast<double>(s.sessions.busy); }},
    {"hydrant_sessions", kSessions, "state", "parked",
     [](const Scrape& s) { return static_cast<double>(s.sessions.parked); }},
    {"hydrant_sessions", kSessions, "state", "on_disk",
     [](const Scrape& s) { return static_cast<double>(s.sessions.on_disk); }},
    {"hydrant_sessions", kSessions, "state", "cold",
     [](const Scrape& s) { return static_cast<double>(s.sessions.cold); }},
    {"hydrant_session_log_bytes", "Bytes of the session log, dead records included.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.log.bytes); }},
    {"hydrant_session_log_live_bytes", "Bytes of its records that count.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.log.live_bytes); }},
    {"hydrant_session_log_commits_total", "Syncs of the session log: each makes a group of turns durable.", nullptr,
     nullptr, [](const Scrape& s) { return static_cast<double>(s.log.commits); }},
    {"hydrant_session_log_records_total", "Turns and ends of sessions that were made durable.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.log.records); }},
    {"hydrant_session_log_errors_total", "Writes and syncs of the session log that failed.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.log.errors); }},
    {"hydrant_session_log_damaged_total", "Records and files of the session log that are not what was written.",
     nullptr, nullptr, [](const Scrape& s) { return static_cast<double>(s.log.damaged); }},
    {"hydrant_session_log_read_only", "1 while nothing can be written: turns go on without being durable.", nullptr,
     nullptr, [](const Scrape& s) { return s.log.read_only ? 1.0 : 0.0; }},
    {"hydrant_session_log_waiting_bytes",
     "Memory of turns and ends of sessions that wait to be written to the session log.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.log.waiting_bytes); }},
    {"hydrant_session_log_passed_total", "Turns and changes that were not written: too much waited.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.log.passed); }},
    {"hydrant_session_kv_files", "Sessions whose KV is on the disk.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.kv.files); }},
    {"hydrant_session_kv_bytes", "Bytes of these files (--session-disk-bytes).", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.kv.bytes); }},
    {"hydrant_session_kv_written_bytes_total", "KV written to the disk.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.kv.written_bytes); }},
    {"hydrant_session_kv_read_bytes_total", "KV read back from the disk, and found to be what was written.", nullptr,
     nullptr, [](const Scrape& s) { return static_cast<double>(s.kv.read_bytes); }},
    {"hydrant_session_kv_evicted_total", "Files that made room for others.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.kv.evicted); }},
    {"hydrant_session_kv_passed_total", "KV that was not written: too much waited, or there was no room on the disk.",
     nullptr, nullptr, [](const Scrape& s) { return static_cast<double>(s.kv.passed); }},
    {"hydrant_session_kv_errors_total", "Writes and removals of KV files that failed.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.kv.errors); }},
    {"hydrant_shape_compiles_total", "Schemas and expressions that answers are to be held to, by what became of them.",
     "result", "compiled", [](const Scrape& s) { return static_cast<double>(s.shapes.compiled); }},
    {"hydrant_shape_compiles_total", "Schemas and expressions that answers are to be held to, by what became of them.",
     "result", "refused", [](const Scrape& s) { return static_cast<double>(s.shapes.refused); }},
    {"hydrant_shape_compile_seconds_total", "Time that compiling them took.", nullptr, nullptr,
     [](const Scrape& s) { return s.shapes.compile_seconds; }},
    {"hydrant_shape_cache_hits_total", "Requests that found theirs compiled, or refused, before.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.shapes.hits); }},
    {"hydrant_shape_cache_shapes", "Compiled schemas and expressions that are kept.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.shapes.kept); }},
    {"hydrant_shape_cache_bytes", "About what these take in memory.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.shapes.kept_bytes); }},
    {"hydrant_stalls_total", "Steps longer than the stall threshold (--engine-stall-s).", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.stalls + (s.stalled ? 1 : 0)); }},
    {"hydrant_weights_read_bytes_total", "Weights read from the disk (--weights-memory).", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.weights_read_bytes); }},
    {"hydrant_weights_wait_seconds_total", "Time that steps waited for weights from the disk.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.weights_waited_us) * 1e-6; }},
    {"hydrant_steps_lost_total", "Steps that failed for lack of memory, or of weights from the disk.", nullptr, nullptr,
     [](const Scrape& s) { return static_cast<double>(s.engine.steps_lost); }},
};

constexpr SampledSeries<TenantCounters> kTenantSeries[] = {
    {"hydrant_prompt_tokens_total", "Prompt tokens computed.", nullptr, nullptr,
     [](const TenantCounters& t) { return static_cast<double>(t.prompt_tokens); }},
    {"hydrant_generation_tokens_total", "Tokens generated.", nullptr, nullptr,
     [](const TenantCounters& t) { return static_cast<double>(t.generated_tokens); }},
    {"hydrant_service_total", "Fair-share service charged, divided by the weight.", nullptr, nullptr,
     [](const TenantCounters& t) { return t.charged; }},
    {"hydrant_running", "Sequences in the execution batch.", nullptr, nullptr,
     [](const TenantCounters& t) { return static_cast<double>(t.running); }},
    {"hydrant_waiting", kWaitingByReason, "reason", "capacity",
     [](const TenantCounters& t) { return static_cast<double>(t.waiting - t.waiting_deferred); }},
    {"hydrant_waiting", kWaitingByReason, "reason", "deferred",
     [](const TenantCounters& t) { return static_cast<double>(t.waiting_deferred); }},
    {"hydrant_live_slots", "Occupied token slots of running sequences.", nullptr, nullptr,
     [](const TenantCounters& t) { return static_cast<double>(t.live_slots); }},
    {"hydrant_logical_tokens", "Tokens of running sequences: the slots that they would occupy without eviction.",
     nullptr, nullptr, [](const TenantCounters& t) { return static_cast<double>(t.logical_tokens); }},
    {"hydrant_blocks", "Blocks in use.", nullptr, nullptr,
     [](const TenantCounters& t) { return static_cast<double>(t.blocks); }},
    {"hydrant_reserved_blocks", "Blocks held by or reserved for running sequences.", nullptr, nullptr,
     [](const TenantCounters& t) { return static_cast<double>(t.reserved_blocks); }},
};

}  // namespace

int32_t Scrape::waiting_deferred() const {
  int32_t deferred = 0;
  for (const TenantCounters& tenant : engine.tenants) deferred += tenant.waiting_deferred;
  return deferred;
}

double Scrape::kv_usage() const {
  const int32_t blocks = engine.blocks_free + engine.blocks_used + engine.blocks_cached;
  return blocks > 0 ? static_cast<double>(engine.blocks_used) / blocks : 0.0;
}

std::span<const SampledSeries<Scrape>> EngineSeries() { return kEngineSeries; }
std::span<const SampledSeries<TenantCounters>> TenantSeries() { return kTenantSeries; }

}  // namespace hydrant
