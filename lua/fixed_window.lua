--[[
Decides one request under a fixed window.

Source: the decisions of crates/limiter/src/algorithm/fixed_window.rs. Denied requests are not counted.

While rules with other windows use the key, up to 4 lengths have windows of their own, and each request is counted in all
of them. The window of a new length begins with the tokens of the open window that has most. A length whose rule has not
written for two windows is dropped.

KEYS[1]  "<tokens consumed in the window> <its end, unix time in us> <its length in us>"; missing = no open window. Several
         lengths are joined by `;`, each followed by the time of its rule's last write, unix time in us. Earlier versions
         stored no length
ARGV[1]  limit: tokens per window, integer
ARGV[2]  window: length in us, integer
ARGV[3]  now: unix time in seconds, up to 6 decimals; empty = the TIME of this server, so gateway clocks do not matter
ARGV[4]  cost: tokens of the request, integer; 0 only reads. A signed cost is a correction and never denies:
         +n consumes up to n more tokens, -n returns n
ARGV[5]  align: `first` = a window opens with a request; `clock` = windows begin at multiples of their length since
         1970; `calendar` = windows begin at the following times, and ARGV[2] is the longest length
ARGV[6]  for -n: time of the request, unix time in us; tokens of an earlier window are not returned
or, with `calendar`
ARGV[6]-[9]  starts of four consecutive windows, unix time in us; the second is the current one by the caller's clock
ARGV[10] for -n: as above

Returns  {allowed 1 or 0, tokens remaining, retry after us (-1: never), end of the window after us, now us}
Expiry   1 s after the end of the window
Errors   an invalid argument fails before anything is read; so does a time before the first or after the third calendar
         window, since the clocks differ by more than a window. A stored value in another format counts as missing

redis-cli --eval lua/fixed_window.lua 'window.{demo.me}' , 20 10000000 '' 1 first
--]]

local byte, find, format, call = string.byte, string.find, string.format, redis.call
local MILLION, MOST = 1000000, 9007199254740991
local limit, window, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])

-- [validate]
if #KEYS ~= 1 then return redis.error_reply('ERR expected 1 key') end
if not limit or limit > MOST or find(ARGV[1], '%D') then
  return redis.error_reply('ERR limit must be a whole number up to 9007199254740991')
end
if not window or window < 1 or window > MOST or find(ARGV[2], '%D') then
  return redis.error_reply('ERR window must be a whole number of us from 1 to 9007199254740991')
end
if not cost or cost > MOST or cost < -MOST or not find(ARGV[4], '^[+-]?%d+$') then
  return redis.error_reply('ERR cost must be a whole number up to 9007199254740991')
end
if ARGV[5] ~= 'first' and ARGV[5] ~= 'clock' and ARGV[5] ~= 'calendar' then
  return redis.error_reply('ERR align must be first, clock or calendar')
end
if ARGV[5] == 'calendar' then
  for at = 6, 9 do
    local start = tonumber(ARGV[at])
    if not start or start > MOST or find(ARGV[at], '%D') or at > 6 and start <= tonumber(ARGV[at - 1]) then
      return redis.error_reply('ERR windows must be four unix times in us, one behind the other')
    end
  end
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

-- Windows of a calendar count as those of one length, that of the longest.
local used, ends, anchor, taken_at, correction, id = 0, now + window, false, ARGV[6], byte(ARGV[4]) < 48, window
if ARGV[5] == 'clock' then
  ends = ends - now % window
elseif ARGV[5] == 'calendar' then
  local first, second, third, last = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
  if now < first or now >= last then
    return redis.error_reply('ERR the clocks of this server and of the gateway differ by more than a window')
  end
  if now < second then
    ends, window = second, second - first
  elseif now < third then
    ends, window = third, third - second
  else
    ends, window = last, last - third
  end
  taken_at = ARGV[10]
end
-- The window of the rule's length as it was found, the largest use of an open window, and windows of other lengths.
local own_used, own_ends, own_at, most, others = 0, false, now, false, false
local stored = call('GET', KEYS[1])
if stored then
  for part in string.gmatch(stored, '[^;]+') do
    local _, _, taken, over, length, at = find(part, '^(%d+) (%d+) ?(%d*) ?(%d*)$')
    taken, over, length, at = tonumber(taken), tonumber(over), tonumber(length) or id, tonumber(at) or now
    if over and length > 0 then
      local latest = length == id and ends or now + length
      -- A correction never ends a window earlier: it may come from an earlier rule.
      if over > latest and not correction then over, anchor = latest, true end
      if over > now and (not most or taken > most) then most = taken end
      if at > now and not correction then at = now end
      if length == id then
        own_used, own_ends, own_at = taken, over, at
      elseif correction or now - at < 2 * math.max(length, id) then
        others = others or {}
        others[#others + 1] = {taken, over, length, at}
      end
    end
  end
  if not most then
    own_ends, others = false, false
  elseif not own_ends then
    used, anchor = most, anchor or not correction and most > 0
  elseif own_ends > now then
    used, ends = own_used, own_ends
  end
end

local room = limit - used
if room < 0 then room = 0 end
local allowed, retry_after, takes = 0, 0, cost
-- True if the window of the rule's length is part of the state: a correction adds no length.
local keeps = not correction or own_ends or not most
if correction then
  allowed = 1
  if takes > room then
    takes = room
  elseif takes < 0 then
    local at = tonumber(taken_at) or now
    for _, other in ipairs(others or {}) do
      if other[2] > now and at >= other[2] - other[3] and other[1] > 0 then
        other[1], anchor = math.max(0, other[1] + takes), true
      end
    end
    local counts = own_ends and own_ends > now and at >= ends - window
    if not counts then takes = 0 elseif takes < -used then takes = -used end
  end
elseif cost <= room then
  allowed = 1
elseif cost > limit then
  retry_after = -1
else
  retry_after = ends - now
end
if allowed == 1 then used = used + takes end
local left = limit - used
if left < 0 then left = 0 end
local reset = used > 0 and ends - now or 0

-- [commit]
if anchor or allowed == 1 and takes ~= 0 then
  if correction and own_ends and own_ends <= now and takes <= 0 then used, ends = own_used, own_ends end
  local text, last = '', 0
  if keeps then text, last = format('%d %d %d', used, ends, id), ends end
  if others then
    if keeps then text = format('%s %d', text, correction and own_at or now) end
    table.sort(others, function(a, b)
      if a[4] ~= b[4] then return a[4] > b[4] end
      return a[3] > b[3]
    end)
    for n = 1, math.min(#others, keeps and 3 or 4) do
      local other = others[n]
      if allowed == 1 and takes > 0 then
        if other[2] <= now then other[1], other[2] = 0, now + other[3] end
        other[1] = math.min(MOST, other[1] + takes)
      end
      if other[2] > last then last = other[2] end
      text = format('%s%s%d %d %d', text, text == '' and '' or ';', other[1], other[2], other[3])
      if keeps or #others > 1 then text = format('%s %d', text, other[4]) end
    end
  end
  local ttl = (last - now) / 1000 + 1000
  call('SET', KEYS[1], text, 'PX', format('%d', ttl))
end
-- [reply]
return {allowed, left, retry_after, reset, now}
