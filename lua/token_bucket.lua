--[[
Decides one request under a token bucket, exactly and atomically.

Source: the decisions of filters/src/limiter/algorithm/token_bucket.rs, in the two keys of Spring Cloud Gateway's
RedisRateLimiter, so that both gateways can share buckets while one replaces the other. Unlike Spring's script this one
refills continuously (microseconds, not whole seconds), writes nothing on a denial, and never stores a bucket for 0 s.

KEYS[1]  tokens left when last written: decimal, up to 6 places; missing = a full bucket
KEYS[2]  when that was: unix time in seconds, up to 6 places
ARGV[1]  rate: tokens a second, whole, 1 to 4294967295
ARGV[2]  burst: tokens the bucket holds at most, whole, 0 to 4294967295
ARGV[3]  now: unix time in seconds, up to 6 places; empty = this server's TIME, so that gateways' clocks don't matter
ARGV[4]  requested: tokens the request takes, whole, 1 to 4294967295

Returns  {allowed 1 or 0, whole tokens left, retry after us (-1: never), full again after us}
Expiry   both keys: the time in which an empty bucket fills, or Spring's floor(2 * burst / rate) where that is more
Errors   a bad argument is refused before anything is read. Stored text that is no number counts as missing, as in
         Spring's script; a value of another type is replaced.

redis-cli --eval lua/token_bucket.lua 'request_rate_limiter.{demo.me}.tokens' 'request_rate_limiter.{demo.me}.timestamp' , 10 20 '' 1
--]]

local floor, ceil, format = math.floor, math.ceil, string.format
local MILLION = 1000000

-- Everything below counts in millionths of a token and microseconds. A burst of 2^32 tokens is less than 2^52
-- millionths, so doubles hold every sum here exactly, and the rounding of a division never crosses a whole number.

local function whole(text, least, name)
  local n = tonumber(text)
  if n and n >= least and n <= 4294967295 and n == floor(n) then return n end
  return nil, redis.error_reply('ERR ' .. name .. ' must be a whole number from ' .. least .. ' to 4294967295')
end

-- Millionths in a decimal text, rounded to the nearest one; nil when it is no number that can be counted so exactly.
local function millionths(text)
  local n = text and tonumber(text)
  if not n or not (n > -9007199254 and n < 9007199254) then return nil end
  local units = floor(n)
  return units * MILLION + floor((n - units) * MILLION + 0.5)
end

-- The shortest decimal text of so many millionths.
local function decimal(units)
  local rest = units % MILLION
  if rest == 0 then return format('%.0f', units / MILLION) end
  return format('%.0f.%06.0f', (units - rest) / MILLION, rest)
end

if #KEYS ~= 2 then return redis.error_reply('ERR expected 2 keys: tokens and timestamp') end
local rate, bad = whole(ARGV[1], 1, 'rate')
if not rate then return bad end
local burst, bad = whole(ARGV[2], 0, 'burst')
if not burst then return bad end
local requested, bad = whole(ARGV[4], 1, 'requested')
if not requested then return bad end

local now
if ARGV[3] == '' then
  local time = redis.call('TIME')
  now = time[1] * MILLION + time[2]
else
  now = millionths(ARGV[3])
  if not now or now < 0 then return redis.error_reply('ERR now must be unix time in seconds, or empty') end
end

local capacity = burst * MILLION
local need = requested * MILLION

local stored = redis.call('MGET', KEYS[1], KEYS[2])
local level, since = millionths(stored[1]), millionths(stored[2])
local anchor = false
if not level then
  level = capacity
elseif not since or since > now then
  -- Only half the state is left, or the clock was set back. Nothing flows for time that nobody saw, and a denial
  -- writes too, so that the bucket fills from now on and the key does not starve until that later moment.
  anchor = true
else
  level = level + (now - since) * rate
end
level = math.max(0, math.min(capacity, level))

local allowed, retry_after = 0, 0
if need <= level then
  allowed = 1
  level = level - need
elseif need > capacity then
  retry_after = -1
else
  retry_after = ceil((need - level) / rate)
end

if allowed == 1 or anchor then
  -- The hundredth of a second is for a bucket that fills in a little less than a whole second: the server's expiry
  -- clock runs in milliseconds and may lag its TIME.
  local ttl = format('%.0f', math.max(floor(2 * burst / rate), floor(burst / rate + 1.01)))
  redis.call('SET', KEYS[1], decimal(level), 'EX', ttl)
  redis.call('SET', KEYS[2], decimal(now), 'EX', ttl)
end

return {allowed, floor(level / MILLION), retry_after, ceil((capacity - level) / rate)}
