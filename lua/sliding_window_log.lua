--[[
Decides one request under an exact sliding window, from a log of consumed tokens.

Source: the decisions of crates/limiter/src/algorithm/sliding_window_log.rs. Tokens consumed at t count until t +
window. A denial writes nothing. If the clock was set back, tokens with a time in the future count as consumed now. Each
write drops tokens older than the window, so a longer window finds only tokens not dropped under the shorter one.

KEYS[1]  sorted set with one member per token. The score is the time of consumption, unix time in us. The member is the
         same number; further tokens of one microsecond append `.` and a number of six digits
ARGV[1]  limit: tokens within any window length, integer, at most 1000000
ARGV[2]  window: length in us, integer
ARGV[3]  now: unix time in seconds, up to 6 decimals; empty = the TIME of this server, so gateway clocks do not matter
ARGV[4]  cost: tokens of the request, integer; 0 only reads. A signed cost is a correction and never denies:
         +n consumes up to n more tokens, -n returns n
ARGV[5]  for -n: time of the request, unix time in us; only tokens of exactly that time are returned

Returns  {allowed 1 or 0, tokens remaining, retry after us (-1: never), no token counts any more after us, now us}
Expiry   1 s after the end of the window of the last consumed token
Errors   an invalid argument fails before anything is read

redis-cli --eval lua/sliding_window_log.lua 'log.{demo.me}' , 20 10000000 '' 1
--]]

local byte, format, find, call = string.byte, string.format, string.find, redis.call
local MILLION, MOST = 1000000, 9007199254740991
local limit, window, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])

-- [validate]
if #KEYS ~= 1 then return redis.error_reply('ERR expected 1 key') end
if not limit or limit > MILLION or find(ARGV[1], '%D') then
  return redis.error_reply('ERR limit must be a whole number up to 1000000')
end
if not window or window < 1 or window > MOST or find(ARGV[2], '%D') then
  return redis.error_reply('ERR window must be a whole number of us from 1 to 9007199254740991')
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

local key, over = KEYS[1], format('%d', now - window)
local used, newest = call('ZCOUNT', key, '(' .. over, '+inf'), 0
if used > 0 then newest = tonumber(call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2]) end
local anchor = newest > now
if anchor then newest = now end

local room = limit - used
if room < 0 then room = 0 end
local allowed, retry_after, takes = 0, 0, cost
if byte(ARGV[4]) < 48 then
  allowed = 1
  if takes > room then
    takes = room
  elseif takes < 0 then
    local at = tonumber(ARGV[5])
    local taken = at and not anchor and at > now - window and call('ZCOUNT', key, ARGV[5], ARGV[5]) or 0
    if takes < -taken then takes = -taken end
  end
elseif cost <= room then
  allowed = 1
elseif cost > limit then
  retry_after = -1
else
  -- All counted tokens except the newest `limit - cost` must expire first.
  local at = tonumber(call('ZREVRANGE', key, limit - cost, limit - cost, 'WITHSCORES')[2])
  retry_after = (at < now and at or now) + window - now
end
if allowed == 1 then used = used + takes end
local left = limit - used
if left < 0 then left = 0 end
local reset = 0
if allowed == 1 and takes > 0 then reset = window elseif used > 0 then reset = newest + window - now end

-- [commit]
if takes < 0 and not anchor then
  -- Remove the highest numbers, so the remaining numbers have no gap.
  local last = call('ZCOUNT', key, '-inf', ARGV[5]) - 1
  call('ZREMRANGEBYRANK', key, last + takes + 1, last)
elseif anchor or allowed == 1 and takes > 0 then
  call('ZREMRANGEBYSCORE', key, '-inf', over)
  local score, first = format('%d', now), 0
  local last = allowed == 1 and takes - 1 or -1
  if newest == now then
    first = call('ZCOUNT', key, score, score)
    last = last + first
    if anchor then last = last + call('ZREMRANGEBYSCORE', key, '(' .. score, '+inf') end
  end
  for from = first, last, 1000 do
    local members = {}
    for number = from, last < from + 999 and last or from + 999 do
      members[#members + 1] = score
      members[#members + 1] = number == 0 and score or format('%s.%06d', score, number)
    end
    call('ZADD', key, unpack(members))
  end
  call('PEXPIRE', key, format('%d', window / 1000 + 1000))
end
-- [reply]
return {allowed, left, retry_after, reset, now}
