--[[
Decides one request under a sliding window that is estimated from two counters.

Source: the decisions of crates/limiter/src/algorithm/sliding_window_counter.rs, after Cloudflare's rate limiting. The
previous window counts by the fraction that still overlaps with the last `window`. Windows begin at multiples of their
length since 1970. Tokens of windows in the future after a clock change count as consumed in the current one. Denied
requests are not counted.

While rules with other windows use the key, up to 4 lengths have counters of their own, and each request is counted in
all of them. For a new length, tokens of the longest window count as consumed at the latest time that it allows. A length
whose rule has not written for two windows is dropped.

KEYS[1]  "<start of the current window, unix time in us> <tokens of the previous window> <tokens of the current one>
         <length in us>", as of the last write; missing = no tokens consumed. Several lengths are joined by `;`, each
         followed by the time of its rule's last write, unix time in us
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
local start, previous, current, anchor, others = now - now % window, 0, 0, false, false
local stored = call('GET', KEYS[1])
if stored then
  local own, longest
  for windows in string.gmatch(stored, '[^;]+') do
    local _, _, began, before, taken, length, used = find(windows, '^(%d+) (%d+) (%d+) (%d+) ?(%d*)$')
    began, before, taken, length = tonumber(began), tonumber(before), tonumber(taken), tonumber(length)
    used = tonumber(used) or now
    if used > now then used = now end
    if length and length > 0 and math.max(began, before, taken, length) <= MOST then
      if now < began and before + taken > 0 then
        began, before, taken, anchor = now - now % length, 0, before + taken, true
      elseif now >= began + 2 * length then
        began, before, taken = now - now % length, 0, 0
      elseif now >= began + length then
        began, before, taken = began + length, taken, 0
      end
      local moved = {began, before, taken, length, used}
      if before + taken > 0 and (not longest or length > longest[4]) then longest = moved end
      if length == window then
        own = moved
      elseif now - used < 2 * math.max(length, window) then
        others = others or {}
        others[#others + 1] = moved
      end
    end
  end
  if not longest then
    others = false
  elseif own then
    if own[2] + own[3] > 0 then start, previous, current = own[1], own[2], own[3] end
  else
    current = longest[3]
    if longest[1] > start then
      current = current + longest[2]
    elseif longest[1] > start - window then
      previous = longest[2]
    end
    anchor = anchor or previous + current > 0
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
    for _, other in ipairs(others or {}) do
      local n = at >= other[1] and 3 or 2
      if at >= other[1] - other[4] and at < other[1] + other[4] and other[n] > 0 then
        other[n], anchor = math.max(0, other[n] + takes), true
      end
    end
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
  local text, ttl = format('%d %d %d %d', start, previous, current, window), reset
  if others then
    text = format('%s %d', text, now)
    table.sort(others, function(a, b)
      if a[5] ~= b[5] then return a[5] > b[5] end
      return a[4] > b[4]
    end)
    for n = 1, math.min(#others, 3) do
      local other = others[n]
      if allowed == 1 and takes > 0 then other[3] = other[3] + takes end
      text = format('%s;%d %d %d %d %d', text, unpack(other))
      if other[2] + other[3] > 0 then ttl = math.max(ttl, other[1] + (other[3] > 0 and 2 or 1) * other[4] - now) end
    end
  end
  ttl = ttl / 1000 + 1000
  call('SET', KEYS[1], text, 'PX', format('%d', ttl))
end
-- [reply]
return {allowed, left, retry_after, reset, now}
