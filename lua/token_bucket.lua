--[[
Decides one request under a token bucket, exactly and atomically.

Source: the decisions of filters/src/limiter/algorithm/token_bucket.rs, in the two keys of Spring Cloud Gateway's
RedisRateLimiter, so that both gateways can share buckets while one replaces the other. Unlike Spring's script this one
refills continuously (microseconds, not whole seconds), writes nothing on a denial, and never stores a bucket for 0 s.

KEYS[1]  tokens left when last written: decimal, 6 places; missing = a full bucket
KEYS[2]  when that was: unix time in seconds, 6 places
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

local format, call = string.format, redis.call
local MILLION, MOST = 1000000, 4294967295

-- Everything below counts in millionths of a token and microseconds. A burst of 2^32 tokens is less than 2^52
-- millionths, so doubles hold every sum here exactly, and the rounding of a division never crosses a whole number.
--
-- There are no local functions, and n - n % 1 stands for math.floor(n): the script's text runs anew for each request,
-- and making a function takes Lua as long as a tenth of everything below.

if #KEYS ~= 2 then return redis.error_reply('ERR expected 2 keys: tokens and timestamp') end
local rate, burst, requested = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
if not (rate and rate >= 1 and rate <= MOST and rate % 1 == 0) then
  return redis.error_reply('ERR rate must be a whole number from 1 to 4294967295')
end
if not (burst and burst >= 0 and burst <= MOST and burst % 1 == 0) then
  return redis.error_reply('ERR burst must be a whole number from 0 to 4294967295')
end
if not (requested and requested >= 1 and requested <= MOST and requested % 1 == 0) then
  return redis.error_reply('ERR requested must be a whole number from 1 to 4294967295')
end

local now
if ARGV[3] == '' then
  local time = call('TIME')
  now = time[1] * MILLION + time[2]
else
  local seconds = tonumber(ARGV[3])
  if not (seconds and seconds >= 0 and seconds < 9007199254) then
    return redis.error_reply('ERR now must be unix time in seconds, or empty')
  end
  local micros = seconds % 1 * MILLION + 0.5
  now = (seconds - seconds % 1) * MILLION + micros - micros % 1
end

local capacity = burst * MILLION
local need = requested * MILLION

-- MGET, since GET fails on a value of another type. Stored numbers are rounded to the nearest millionth; what cannot be
-- counted so exactly is no number.
local stored = call('MGET', KEYS[1], KEYS[2])
local tokens, timestamp = stored[1] and tonumber(stored[1]), stored[2] and tonumber(stored[2])
local level, anchor = capacity, false
if tokens and tokens > -9007199254 and tokens < 9007199254 then
  local part = tokens % 1 * MILLION + 0.5
  level = (tokens - tokens % 1) * MILLION + part - part % 1
  local since
  if timestamp and timestamp > -9007199254 and timestamp < 9007199254 then
    part = timestamp % 1 * MILLION + 0.5
    since = (timestamp - timestamp % 1) * MILLION + part - part % 1
  end
  if since and since <= now then
    level = level + (now - since) * rate
  else
    -- Only half the state is left, or the clock was set back. Nothing flows for time that nobody saw, and a denial
    -- writes too, so that the bucket fills from now on and the key does not starve until that later moment.
    anchor = true
  end
end
if level > capacity then level = capacity elseif level < 0 then level = 0 end

local allowed, retry_after = 0, 0
if need <= level then
  allowed = 1
  level = level - need
elseif need > capacity then
  retry_after = -1
else
  retry_after = math.ceil((need - level) / rate)
end

local rest = level % MILLION
local whole = (level - rest) / MILLION
if allowed == 1 or anchor then
  -- The hundredth of a second is for a bucket that fills in a little less than a whole second: the server's expiry
  -- clock runs in milliseconds and may lag its TIME.
  local fills_in = burst / rate
  local ttl = format('%d', fills_in < 1.01 and fills_in + 1.01 or 2 * fills_in)
  local micros = now % MILLION
  call('SETEX', KEYS[1], ttl, format('%d.%06d', whole, rest))
  call('SETEX', KEYS[2], ttl, format('%d.%06d', (now - micros) / MILLION, micros))
end

return {allowed, whole, retry_after, math.ceil((capacity - level) / rate)}
