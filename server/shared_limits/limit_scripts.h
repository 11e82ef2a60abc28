// What the store runs, each as a whole: nothing comes between its lines. Time is the store's. All numbers go in and out as text
// that Lua reads as doubles, exact up to 2^53; microseconds since 1970 stay below that for two centuries.
//
// A rate is one string, "USED AT": tokens used at a time, which drain evenly, so many a minute; it is TokenBucket, filled the other
// way round, so that what is not there is a full bucket. A place is a member of a sorted set: its holder's name, by when it ends
// unless the holder says again that it has it.
#ifndef HYDRANT_SERVER_SHARED_LIMITS_LIMIT_SCRIPTS_H_
#define HYDRANT_SERVER_SHARED_LIMITS_LIMIT_SCRIPTS_H_

namespace hydrant {

// What the two below begin with. A clock that was set back drains nothing for once, and goes on from there; without that a tenant
// would get nothing until the clock had caught up.
inline constexpr char kScriptHead[] = R"(
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local per_minute = tonumber(ARGV[1])
local amount = tonumber(ARGV[2])
local function used_now()
  local value = redis.call('GET', KEYS[1])
  if not value then return 0 end
  local used, at = string.match(value, '^(%S+) (%S+)$')
  used, at = tonumber(used), tonumber(at)
  if not used or not at then error('not a rate') end
  return math.max(0, used - math.max(0, now - at) * per_minute / 60e6)
end
local function set_used(used)
  if used <= 0 then
    redis.call('DEL', KEYS[1])
  else
    local full_ms = math.ceil(used * 60000 / per_minute) + 1000
    redis.call('SET', KEYS[1], string.format('%.17g %.0f', used, now), 'PX', string.format('%.0f', full_ms))
  end
end
)";

// KEYS: rate, places. ARGV: per minute (0: no such limit), amount, most places (0: no such limit), places, name, milliseconds that they
// last. Answers {1 granted | 2 too many tokens | 3 too many places, tokens left, microseconds until there are enough}.
inline constexpr char kTakeBody[] = R"(
local places_max, places, ttl = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[6])
if places_max > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now))
  redis.call('ZREMRANGEBYSCORE', KEYS[2], string.format('(%.0f', now + ttl * 1000), '+inf')
  if redis.call('ZCARD', KEYS[2]) + places > places_max then return {3, 0, 0} end
end
local left = 0
if per_minute > 0 then
  local used = used_now()
  local over = used + amount - per_minute
  if over > 1e-6 then
    set_used(used)
    return {2, math.floor(math.max(0, per_minute - used)), math.ceil(over * 60e6 / per_minute)}
  end
  set_used(used + amount)
  left = math.max(0, math.floor(per_minute - used - amount + 1e-6))
end
if places_max > 0 then
  for i = 1, places do
    redis.call('ZADD', KEYS[2], string.format('%.0f', now + ttl * 1000), ARGV[5] .. i)
  end
  redis.call('PEXPIRE', KEYS[2], ARGV[6])
end
return {1, left, 0}
)";

// KEYS: rate, places. ARGV: per minute, amount (negative: more was used than taken), places, name. Answers 1.
inline constexpr char kGiveBody[] = R"(
if per_minute > 0 and amount ~= 0 then set_used(used_now() - amount) end
for i = 1, tonumber(ARGV[3]) do redis.call('ZREM', KEYS[2], ARGV[4] .. i) end
return 1
)";

// KEYS: places. ARGV: milliseconds, names. Those who have them have them for so long again. Answers 1.
inline constexpr char kRenewScript[] = R"(
local clock = redis.call('TIME')
local until_us = string.format('%.0f', clock[1] * 1000000 + clock[2] + ARGV[1] * 1000)
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], until_us, ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
)";

}  // namespace hydrant

#endif  // HYDRANT_SERVER_SHARED_LIMITS_LIMIT_SCRIPTS_H_
