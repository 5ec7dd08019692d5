--[[
Decides one request under a prepaid quota, or grants to it.

Source: the decisions of crates/limiter/src/algorithm/quota.rs. Nothing refills a quota; a new one begins with the next
period, if the rule has periods. A denied request consumes nothing. A period that was left is not entered again when the
clock is set back: the later one counts on, unless it begins more than a period later.

While rules with other periods use the key, up to 4 calendars have counts of their own, and each request is counted in all
whose period has not ended. The first period of a new calendar begins with the tokens of the open period that has most. A
grant applies to the period of its rule.

KEYS[1]  "<tokens consumed minus granted> <end of the period> <first use in the period> <calendar>", unix times in us; 0 as
         the end = no period; missing = a new quota. The periods of several calendars are joined by `;`
ARGV[1]  allowance: tokens of a new quota, integer
ARGV[2]  action: `take`; `grant` = add ARGV[4] tokens without a bound, never denied; `set` = leave ARGV[4] tokens
ARGV[3]  now: unix time in seconds, up to 6 decimals; empty = the TIME of this server, so gateway clocks do not matter
ARGV[4]  cost: tokens of the request, integer; 0 only reads. For `take`, a signed cost is a correction and never denies:
         +n consumes up to n more tokens, -n returns n. For `grant`, -n removes n tokens
ARGV[5]-[8]  starts of four consecutive periods, unix time in us; the second is the current one by the caller's clock.
         All empty = no period
ARGV[9]  calendar of the periods, integer from 2 to 999999: equal for equal periods. Empty = no period
ARGV[10] for -n: time of the request, unix time in us; tokens from before the first use in a period are not returned

Returns  {allowed 1 or 0, tokens remaining, retry after us (-1: never), new quota after us, now us}
Publishes the name of the key on the channel `tollgate.returned`, after a grant or a set; text before `quota.{` in the
         key stands before the channel's name too
Expiry   61 s after the end of the last period, never without one
Errors   an invalid argument fails before anything is read; so does a time before the first or after the third period,
         since the clocks differ by more than a period. A stored value in another format counts as missing

redis-cli --eval lua/quota.lua 'quota.{demo.me}' , 20 take '' 1 '' '' '' ''
--]]

local byte, format, find, call = string.byte, string.format, string.find, redis.call
local MILLION, MOST = 1000000, 9007199254740991
local allowance, cost = tonumber(ARGV[1]), tonumber(ARGV[4])

-- [validate]
if #KEYS ~= 1 then return redis.error_reply('ERR expected 1 key') end
if not allowance or allowance > MOST or find(ARGV[1], '%D') then
  return redis.error_reply('ERR allowance must be a whole number up to 9007199254740991')
end
if ARGV[2] ~= 'take' and ARGV[2] ~= 'grant' and ARGV[2] ~= 'set' then
  return redis.error_reply('ERR action must be take, grant or set')
end
if not cost or cost > MOST or cost < -MOST or not find(ARGV[4], '^[+-]?%d+$') or ARGV[2] == 'set' and cost < 0 then
  return redis.error_reply('ERR cost must be a whole number up to 9007199254740991')
end
if ARGV[5] ~= '' or ARGV[6] ~= '' or ARGV[7] ~= '' or ARGV[8] ~= '' then
  for at = 5, 8 do
    local start = tonumber(ARGV[at])
    if not start or start > MOST or find(ARGV[at], '%D') or at > 5 and start <= tonumber(ARGV[at - 1]) then
      return redis.error_reply('ERR periods must be four unix times in us, one behind the other, or empty')
    end
  end
  if not find(ARGV[9] or '', '^[1-9]%d*$') or tonumber(ARGV[9]) < 2 or #ARGV[9] > 6 then
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

local used, began, ends, latest, anchor, huge = 0, now, math.huge, math.huge, false, math.huge
-- 1 is the calendar without periods.
local calendar = 1
if ARGV[5] ~= '' then
  local first, second, third, last = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
  if now < first or now >= last then
    return redis.error_reply('ERR the clocks of this server and of the gateway differ by more than a window')
  end
  if now < second then
    ends, latest = second, third
  elseif now < third then
    ends, latest = third, last
  else
    ends, latest = last, last + last - third
  end
  calendar = tonumber(ARGV[9])
end

local correction, at = ARGV[2] == 'take' and byte(ARGV[4]) < 48, tonumber(ARGV[10]) or now
-- The period of the rule's calendar as it was found, the open period with most tokens, and those of other calendars:
-- tokens, end, first use, calendar.
local found, most, others = false, false, {}
for part in string.gmatch(call('GET', KEYS[1]) or '', '[^;]+') do
  local _, _, taken, over, since, id = find(part, '^(-?%d+) (%d+) (%d+) (%d+)$')
  taken, over, since, id = tonumber(taken), tonumber(over), tonumber(since), tonumber(id)
  if taken and math.max(math.abs(taken), over, since, id) <= MOST then
    local period = {taken, over == 0 and huge or over, math.min(since, now), id}
    if id == calendar and not found then found = period else others[#others + 1] = period end
    if period[2] > now and (not most or taken > most[1] or taken == most[1] and period[3] < most[3]) then
      most = period
    end
  end
end
-- True if tokens were counted in the current period; true if its calendar is new to a key with other open periods.
local known, new = false, false
if not most then
  found, others = false, {}
elseif not found then
  used, began, known, new = most[1], most[3], true, true
  anchor = used ~= 0 and not correction
elseif found[2] > now then
  used, began, known = found[1], found[3], true
  if used ~= 0 then
    if found[2] > latest then anchor = true else ends = found[2] end
  end
end

local left = allowance - used
if left < 0 then left = 0 elseif left > MOST then left = MOST end
-- Tokens for the period of the rule, and for those of other calendars.
local allowed, retry_after, takes, shared = 0, 0, cost, 0
if ARGV[2] ~= 'take' then
  allowed, takes = 1, ARGV[2] == 'set' and allowance - cost - used or -cost
elseif correction then
  allowed = 1
  if takes > left then takes = left end
  shared = takes
  if takes < 0 and not (known and at >= began) then takes = 0 end
elseif cost <= left then
  allowed, shared = 1, cost
elseif cost > allowance or ends == huge then
  retry_after = -1
else
  retry_after = ends - now
end
if allowed == 1 then
  used = ARGV[2] == 'set' and allowance - cost or used + takes
  if used > MOST then used = MOST elseif used < -MOST then used = -MOST end
end
for _, other in ipairs(others) do
  if shared ~= 0 and other[2] > now and (shared > 0 or at >= other[3]) then
    other[1], anchor = math.max(-MOST, math.min(MOST, other[1] + shared)), true
  end
end
left = allowance - used
if left < 0 then left = 0 elseif left > MOST then left = MOST end
local reset = used ~= 0 and ends < huge and ends - now or 0

-- [commit]
if anchor or allowed == 1 and takes ~= 0 then
  table.sort(others, function(a, b)
    if a[2] ~= b[2] then return a[2] > b[2] end
    return a[4] > b[4]
  end)
  -- A correction adds no calendar: its rule may be an earlier one.
  local all = {}
  if not (correction and new) then all[1] = {used, ends, began, calendar} end
  for n = 1, math.min(#others, 4 - #all) do all[#all + 1] = others[n] end
  local text, last = '', 0
  for n, period in ipairs(all) do
    last = math.max(last, period[2])
    if period[2] == huge then period[2] = 0 end
    text = format('%s%s%d %d %d %d', text, n > 1 and ';' or '', unpack(period))
  end
  if last < huge then
    call('SET', KEYS[1], text, 'PX', format('%d', (last - now) / 1000 + 61000))
  else
    call('SET', KEYS[1], text)
  end
end
if ARGV[2] ~= 'take' then
  -- Gateways drop a cached denial. Without the permission to publish, the grant still succeeds.
  redis.pcall('PUBLISH', (string.match(KEYS[1], '^([^{]*)quota%.{') or '') .. 'tollgate.returned', KEYS[1])
end
-- [reply]
return {allowed, left, retry_after, reset, now}
