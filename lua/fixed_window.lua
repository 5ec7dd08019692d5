--[[
Decides one request under a fixed window.

Source: the decisions of crates/limiter/src/algorithm/fixed_window.rs. Denied requests are not counted.

Windows on the clock and of a calendar end at a wall time. A window that was left is not entered again when the clock is
set back: the later one counts on, unless it begins more than a window and a minute later.

While rules with other windows use the key, up to 4 kinds (each length, and each way in which windows begin) have windows
of their own, and each request is counted in all of them. The window of a new kind begins with the tokens of the open
window that has most. A kind whose rule has not written for two windows is dropped.

KEYS[1]  "<tokens consumed in the window> <its end, unix time in us> <its length in us> <0 = opened by a request, 1 = on the
         clock, otherwise the calendar's id>"; missing = no open window. Several kinds are joined by `;`, each followed by
         the time of its rule's last write, unix time in us
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
ARGV[10] id of the calendar, integer from 2: equal for equal windows
ARGV[11] for -n: as above

Returns  {allowed 1 or 0, tokens remaining, retry after us (-1: never), end of the window after us, now us}
Expiry   1 s after the end of the window, on the clock and of a calendar up to 61 s after
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
  if not find(ARGV[10] or '', '^[1-9]%d*$') or tonumber(ARGV[10]) < 2 or #ARGV[10] > 6 then
    return redis.error_reply('ERR calendar must be a whole number from 2 to 999999')
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

-- `began` and `ends` are those of a window that opens now, `latest` is the latest end of one that was left. Windows of a
-- calendar have the length of the longest.
local used, began, ends, latest, anchor, correction = 0, now, now + window, now + window, false, byte(ARGV[4]) < 48
local tag, taken_at = 0, ARGV[6]
if ARGV[5] == 'clock' then
  tag, began = 1, now - now % window
  ends = began + window
  latest = ends + math.max(window, 60 * MILLION)
elseif ARGV[5] == 'calendar' then
  local first, second, third, last = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
  if now < first or now >= last then
    return redis.error_reply('ERR the clocks of this server and of the gateway differ by more than a window')
  end
  if now < second then
    began, ends, latest = first, second, third
  elseif now < third then
    began, ends, latest = second, third, last
  else
    began, ends, latest = third, last, last + last - third
  end
  tag, taken_at = tonumber(ARGV[10]), ARGV[11]
end
-- The window of the rule's kind as it was found, the largest use of an open window, and windows of other kinds: tokens,
-- end, length, last use, tag.
local own, most, others = false, false, false
for part in string.gmatch(call('GET', KEYS[1]) or '', '[^;]+') do
  local _, _, taken, over, length, kind, at = find(part, '^(%d+) (%d+) (%d+) (%d+) ?(%d*)$')
  taken, over, length, kind, at = tonumber(taken), tonumber(over), tonumber(length), tonumber(kind), tonumber(at) or now
  if over and length > 0 and math.max(taken, over, length, kind, at) <= MOST then
    local is_own = length == window and kind == tag
    local bound, cut = latest, ends
    if not is_own then
      cut = kind == 0 and now + length or kind == 1 and now - now % length + length
      bound = kind == 1 and cut + math.max(length, 60 * MILLION) or cut
    end
    -- A correction never ends a window earlier: it may come from an earlier rule.
    if bound and over > bound and not correction then over, anchor = cut, true end
    if over > now and (not most or taken > most) then most = taken end
    if at > now and not correction then at = now end
    if is_own then
      own = {taken, over, at}
    elseif correction or now - at < 2 * math.max(length, window) then
      others = others or {}
      others[#others + 1] = {taken, over, length, at, kind}
    end
  end
end
if not most then
  own, others = false, false
elseif not own then
  used, anchor = most, anchor or not correction and most > 0
elseif own[2] > now then
  -- A window that was left begins when the present one ends.
  if tag < 2 then began = own[2] - window elseif own[2] > ends then began = ends end
  used, ends = own[1], own[2]
end

local left = limit - used
if left < 0 then left = 0 end
local allowed, retry_after, takes = 0, 0, cost
-- True if the window of the rule's kind is part of the state: a correction adds no kind.
local keeps = not correction or own or not most
if correction then
  allowed = 1
  if takes > left then
    takes = left
  elseif takes < 0 then
    local at = tonumber(taken_at) or now
    for _, other in ipairs(others or {}) do
      if other[2] > now and at >= other[2] - other[3] and other[1] > 0 and other[5] < 2 then
        other[1], anchor = math.max(0, other[1] + takes), true
      end
    end
    if not (own and own[2] > now and at >= began) then takes = 0 elseif takes < -used then takes = -used end
  end
elseif cost <= left then
  allowed = 1
elseif cost > limit then
  retry_after = -1
else
  retry_after = ends - now
end
if allowed == 1 then used = used + takes end
left = limit - used
if left < 0 then left = 0 end
local reset = used > 0 and ends - now or 0

-- [commit]
if anchor or allowed == 1 and takes ~= 0 then
  if correction and own and own[2] <= now and takes <= 0 then used, ends = own[1], own[2] end
  local text, last = '', 0
  if keeps then
    text, last = format('%d %d %d %d', used, ends, window, tag), ends + (tag > 0 and math.min(window, 60 * MILLION) or 0)
  end
  if others then
    if keeps then text = format('%s %d', text, correction and own and own[3] or now) end
    table.sort(others, function(a, b)
      if a[4] ~= b[4] then return a[4] > b[4] end
      if a[3] ~= b[3] then return a[3] > b[3] end
      return a[5] > b[5]
    end)
    for n = 1, math.min(#others, keeps and 3 or 4) do
      local other = others[n]
      if allowed == 1 and takes > 0 then
        -- Only the rule of a calendar knows when its next window ends.
        if other[2] <= now and other[5] < 2 then
          other[1], other[2] = 0, now + other[3] - (other[5] == 1 and now % other[3] or 0)
        end
        if other[2] > now then other[1] = math.min(MOST, other[1] + takes) end
      end
      last = math.max(last, other[2] + (other[5] > 0 and math.min(other[3], 60 * MILLION) or 0))
      text = format('%s%s%d %d %d %d', text, text == '' and '' or ';', other[1], other[2], other[3], other[5])
      if keeps or #others > 1 then text = format('%s %d', text, other[4]) end
    end
  end
  local ttl = (last - now) / 1000 + 1000
  call('SET', KEYS[1], text, 'PX', format('%d', ttl))
end
-- [reply]
return {allowed, left, retry_after, reset, now}
