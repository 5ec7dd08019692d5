--[[
Decides one request under a sliding window that is estimated from two counters.

Source: the decisions of crates/limiter/src/algorithm/sliding_window_counter.rs, after Cloudflare's rate limiting. The
previous window counts by the fraction that still overlaps with the last `window`. Windows begin at multiples of their
length since 1970. Tokens of windows of another length, or of windows in the future after a clock change, count as
consumed in the current one. Denied requests are not counted.

KEYS[1]  "<start of the current window, unix time in us> <tokens of the previous window> <tokens of the current one>
         <length in us>", as of the last write; missing = no tokens consumed
ARGV[1]  limit: approximate number of tokens within any window length, integer
ARGV[2]  window: length in us, integer
ARGV[3]  now: unix time in seconds, up to 6 decimals; empty = the TIME of this server, so gateway clocks do not matter
ARGV[4]  cost: tokens of the request, integer; 0 only reads. A signed cost is a correction and never denies:
         +n consumes up to n more tokens, -n returns n
ARGV[5]  tick: step in us by which the share of the previous window shrinks, at most a window; limit times ticks per
         window must be below 2^53 to be exact
ARGV[6]  for -n: time of the request, unix time in us; tokens consumed before the previous window are not returned

Returns  {allowed 1 or 0, tokens remaining, retry after us (-1: never), no token counts any more after us, now us}
Expiry   1 s after the last token stops counting
Errors   an invalid argument fails before anything is read; a stored value in another format counts as missing

redis-cli --eval lua/sliding_window_counter.lua 'counter.{demo.me}' , 20 10000000 '' 1 1
--]]

local byte, format, find, call = string.byte, string.format, string.find, redis.call
local MILLION, MOST = 1000000, 9007199254740991
local limit, window, cost, tick = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4]), tonumber(ARGV[5])

-- [validate]
if #KEYS ~= 1 then return redis.error_reply('ERR expected 1 key') end
if not window or window < 1 or window > MOST or find(ARGV[2], '%D') then
  return redis.error_reply('ERR window must be a whole number of us from 1 to 9007199254740991')
end
if not tick or tick < 1 or tick > window or find(ARGV[5], '%D') then
  return redis.error_reply('ERR tick must be a whole number of us from 1 to the window')
end
if not limit or limit * math.ceil(window / tick) > MOST or find(ARGV[1], '%D') then
  return redis.error_reply('ERR limit must be a whole number, and times window / tick at most 9007199254740991')
end
if not cost or cost > MOST or cost < -MOST or not find(ARGV[4], '^[+-]?%d+$') then
  return redis.error_reply('ERR cost must be a whole number up to 9007199254740991')
end

-- [time]
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
-- [/time]

local ticks = math.ceil(window / tick)
local start, previous, current, anchor = now - now % window, 0, 0, false
local stored = call('GET', KEYS[1])
if stored then
  local _, _, start0, before, taken, window0 = find(stored, '^(%d+) (%d+) (%d+) (%d+)$')
  start0, window0 = tonumber(start0), tonumber(window0)
  if start0 and now < start0 + 2 * window0 then
    previous, current = tonumber(before), tonumber(taken)
    if now >= start0 + window0 then previous, current = current, 0 end
    anchor = previous + current > 0 and (window0 ~= window or now < start0)
    if previous > limit then previous = limit end
    if current > limit then current = limit end
    if anchor then
      previous, current = 0, previous + current
      if current > limit then current = limit end
    end
  end
end

local elapsed = now - start
local left = (limit - current) * ticks - previous * (ticks - (elapsed - elapsed % tick) / tick)
if left < 0 then left = 0 end
left = (left - left % ticks) / ticks
local allowed, retry_after, takes, takes_before = 0, 0, cost, 0
if byte(ARGV[4]) < 48 then
  allowed = 1
  if takes > left then
    takes = left
  elseif takes < 0 then
    local at = tonumber(ARGV[6]) or -1
    if at >= start - window and at < start then takes_before = takes < -previous and -previous or takes end
    if at < start or at >= start + window then takes = 0 elseif takes < -current then takes = -current end
  end
elseif cost <= left then
  allowed = 1
elseif cost > limit then
  retry_after = -1
else
  -- The first tick at which enough of the previous window no longer overlaps. It lies in this window, or in the next,
  -- where this window is the previous. `spare` is the largest share that may still count then.
  local spare, slides = (limit - cost) * ticks, current
  retry_after = window - elapsed
  if spare >= current * ticks then
    spare, slides, retry_after = spare - current * ticks, previous, -elapsed
  end
  local at = 0
  if slides > 0 then at = (ticks - (spare - spare % slides) / slides) * tick end
  if at < 0 then at = 0 elseif at > window then at = window end
  retry_after = retry_after + at
end
if allowed == 1 then
  previous, current, left = previous + takes_before, current + takes, left - takes
end
local reset = 0
if current > 0 then reset = start + 2 * window - now elseif previous > 0 then reset = start + window - now end

-- [commit]
if anchor or allowed == 1 and (takes ~= 0 or takes_before ~= 0) then
  local text, ttl = format('%d %d %d %d', start, previous, current, window), reset / 1000 + 1000
  call('SET', KEYS[1], text, 'PX', format('%d', ttl))
end
-- [reply]
return {allowed, left, retry_after, reset, now}
