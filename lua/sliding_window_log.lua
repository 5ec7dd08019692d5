--[[
Decides one request under an exact sliding window, from a log of admitted requests.

Source: the decisions of crates/limiter/src/algorithm/sliding_window_log.rs. Tokens consumed at t count until t +
window. A denial writes nothing. If the clock was set back, tokens with a time in the future count as consumed now. Each
write drops up to 64 entries older than the window, so a longer window finds only entries not dropped under the shorter
one. With a limit above 1000, requests of one grain (window / 1000, rounded up) share an entry with the time of the
last one, so a log has no more than 1001 counted entries, whatever requests cost.

KEYS[1]  sorted set with one member per request. The score is the time of consumption, unix time in us. The member is
         `BEFORE:COUNT`: tokens consumed before the entry (modulo 2^52), and the tokens of the entry
ARGV[1]  limit: tokens within any window length, integer, at most 1000000000000
ARGV[2]  window: length in us, integer
ARGV[3]  now: unix time in seconds, up to 6 decimals; empty = the TIME of this server, so gateway clocks do not matter
ARGV[4]  cost: tokens of the request, integer; 0 only reads. A signed cost is a correction and never denies:
         +n consumes up to n more tokens, -n returns n
ARGV[5]  for -n: time of the request, unix time in us; only tokens of that time's entry are returned

Returns  {allowed 1 or 0, tokens remaining, retry after us (-1: never), no token counts any more after us, now us}
Expiry   1 s after the end of the window of the last consumed token
Errors   an invalid argument fails before anything is read

redis-cli --eval lua/sliding_window_log.lua 'entries.{demo.me}' , 20 10000000 '' 1
--]]

local byte, format, find, call = string.byte, string.format, string.find, redis.call
local MILLION, MOST = 1000000, 9007199254740991
local limit, window, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])

-- [validate]
if #KEYS ~= 1 then return redis.error_reply('ERR expected 1 key') end
if not limit or limit > MILLION * MILLION or find(ARGV[1], '%D') then
  return redis.error_reply('ERR limit must be a whole number up to 1000000000000')
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

local key, over, WRAP = KEYS[1], format('%d', now - window), 4503599627370496
local grain = limit > 1000 and (window + -window % 1000) / 1000 or 1

-- Returns the entry of a reply with one member and its score, nil without one.
local function entry(found)
  if not found[1] then return nil end
  local before, count = string.match(found[1], '^(%d+):(%d+)$')
  return {member = found[1], at = tonumber(found[2]), before = tonumber(before), count = tonumber(count)}
end

local newest, first = entry(call('ZREVRANGE', key, 0, 0, 'WITHSCORES')), nil
if newest and newest.at > now - window then
  first = entry(call('ZRANGEBYSCORE', key, '(' .. over, '+inf', 'WITHSCORES', 'LIMIT', 0, 1))
end
local used = first and (newest.before + newest.count - first.before) % WRAP or 0
local anchor = newest and newest.at > now

local room = limit - used
if room < 0 then room = 0 end
local allowed, retry_after, takes, given = 0, 0, cost, nil
if byte(ARGV[4]) < 48 then
  allowed = 1
  if takes > room then
    takes = room
  elseif takes < 0 then
    local at = tonumber(ARGV[5])
    if at and not anchor and at > now - window then
      given = entry(call('ZRANGEBYSCORE', key, ARGV[5], '+inf', 'WITHSCORES', 'LIMIT', 0, 1))
    end
    -- Later requests of the same grain have moved the entry.
    if given and given.at - given.at % grain ~= at - at % grain then given = nil end
    if not given then takes = 0 elseif takes < -given.count then takes = -given.count end
  end
elseif cost <= room then
  allowed = 1
elseif cost > limit then
  retry_after = -1
else
  -- All counted tokens except the newest `limit - cost` must expire first: the entry with the last of them is searched.
  local expire, at = used - (limit - cost), first.at
  if first.count < expire then
    local low, high = call('ZCOUNT', key, '-inf', over) + 1, call('ZCARD', key) - 1
    while low <= high do
      local middle = (low + high - (low + high) % 2) / 2
      local found = entry(call('ZRANGE', key, middle, middle, 'WITHSCORES'))
      if (found.before + found.count - first.before) % WRAP >= expire then
        at, high = found.at, middle - 1
      else
        low = middle + 1
      end
    end
  end
  retry_after = (at < now and at or now) + window - now
end
if allowed == 1 then used = used + takes end
local left = limit - used
if left < 0 then left = 0 end
local reset = 0
if allowed == 1 and takes > 0 then
  reset = window
elseif used > 0 then
  reset = (anchor and now or newest.at) + window - now
end

-- [commit]
if given and takes < 0 then
  -- Either the tokens before all later entries become fewer, or those before it and all earlier ones become more.
  local from, last = call('ZRANK', key, given.member), call('ZCARD', key) - 1
  local earlier = from < last - from
  if earlier then from, last = 0, from end
  local entries, members = call('ZRANGE', key, from, last, 'WITHSCORES'), {}
  call('ZREMRANGEBYRANK', key, from, last)
  for n = 1, #entries, 2 do
    local before, count = string.match(entries[n], '^(%d+):(%d+)$')
    local is_given = entries[n] == given.member
    if is_given then count = count + takes end
    if earlier then before = (before - takes) % WRAP elseif not is_given then before = (before + takes) % WRAP end
    if not is_given or count > 0 then
      members[#members + 1] = entries[n + 1]
      members[#members + 1] = format('%d:%d', before, count)
    end
    if #members == 2000 or n == #entries - 1 and #members > 0 then
      call('ZADD', key, unpack(members))
      members = {}
    end
  end
  -- Without any member for a moment, the key has lost its expiry.
  call('PEXPIRE', key, format('%d', window / 1000 + 1000))
elseif anchor or allowed == 1 and takes > 0 then
  local score, sum = format('%d', now), newest and newest.before + newest.count or 0
  local count, last = allowed == 1 and takes or 0, newest
  local total = sum + count
  if anchor then
    local ahead = call('ZCOUNT', key, '(' .. score, '+inf')
    last = entry(call('ZREVRANGE', key, ahead, ahead, 'WITHSCORES'))
    count = count + (sum - (last and last.before + last.count or first.before)) % WRAP
    call('ZREMRANGEBYRANK', key, -ahead, -1)
  end
  local old = call('ZCOUNT', key, '-inf', over)
  if old > 0 then call('ZREMRANGEBYRANK', key, 0, old < 64 and old - 1 or 63) end
  if last and last.at - last.at % grain == now - now % grain then
    count = count + last.count
    call('ZREMRANGEBYRANK', key, -1, -1)
  end
  call('ZADD', key, score, format('%d:%d', (total - count) % WRAP, count))
  call('PEXPIRE', key, format('%d', window / 1000 + 1000))
end
-- [reply]
return {allowed, left, retry_after, reset, now}
