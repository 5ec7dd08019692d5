-- A plain token bucket in two keys, for nginx: the caller's time in seconds, no check of its arguments.
-- KEYS: tokens left, time of the last request. ARGV: tokens a second, burst, time, cost.
local rate, burst, now, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local tokens = tonumber(redis.call('GET', KEYS[1])) or burst
local elapsed = math.max(0, now - (tonumber(redis.call('GET', KEYS[2])) or 0))
tokens = math.min(burst, tokens + elapsed * rate)
local allowed = tokens >= cost
if allowed then tokens = tokens - cost end
local ttl = math.max(1, math.floor(2 * burst / rate))
redis.call('SETEX', KEYS[1], ttl, tokens)
redis.call('SETEX', KEYS[2], ttl, now)
return {allowed and 1 or 0, math.floor(tokens)}
