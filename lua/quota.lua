--[[
Decides one request under a prepaid stock, or grants to it.

Source: the decisions of crates/limiter/src/algorithm/quota.rs. Nothing refills a stock; a new one begins when its
period is over, if it has one. A stock keeps its end when the rule changes, unless the period under the new rule is over
earlier. What is denied takes nothing.

KEYS[1]  "<taken less granted> <its end, unix time in us>", without the second if it is for ever; missing = a new stock
ARGV[1]  allowance: what a new stock holds, whole
ARGV[2]  action: `take`; `grant` = ARGV[4] is put in, without any bound, and never denied; `set` = ARGV[4] is left
ARGV[3]  now: unix time in seconds, up to 6 places; empty = this server's TIME, so that gateways' clocks don't matter
ARGV[4]  cost: how much the request takes, whole; 0 only looks. With a sign, to `take`, it corrects what was taken, and
         never denies: +n takes n more or what is left, -n gives n back. To `grant`, -n takes n out
ARGV[5]-[8]  when four periods begin that follow each other, unix time in us, the second being the one that the caller
         thinks to be in; all empty = for ever
ARGV[9]  for -n: when it was taken, unix time in us; what was taken in an earlier period is not given back

Returns  {allowed 1 or 0, how much is left, retry after us (-1: never), new stock after us, now us}
Tells    the channel `tollgate.returned` the name of the key, after a grant or a set
Expiry   a second after the period is over; never without one, while anything is taken or granted
Errors   a bad argument is refused before anything is read, and so is a time before the first or after the third period:
         clocks differ by more than a period then. A stored text of another kind counts as missing

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

local used, began, ends, anchor = 0, 0, math.huge, false
if ARGV[5] ~= '' then
  local first, second, third, last = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
  if now < first or now >= last then
    return redis.error_reply('ERR the clocks of this server and of the gateway differ by more than a window')
  end
  if now < second then
    began, ends = first, second
  elseif now < third then
    began, ends = second, third
  else
    began, ends = third, last
  end
end
local stored = call('GET', KEYS[1])
if stored then
  local _, _, taken, over = find(stored, '^(-?%d+) ?(%d*)$')
  over = tonumber(over) or math.huge
  used = over > now and tonumber(taken) or 0
  if used ~= 0 then
    if over > ends then
      anchor = true
    elseif over < ends then
      -- A shorter period of another rule; as long as the one that it is now, as far as corrections are concerned.
      began, ends = ARGV[5] ~= '' and over - (ends - began) or 0, over
    end
  end
end

local left = allowance - used
if left < 0 then left = 0 elseif left > MOST then left = MOST end
local allowed, retry_after, takes = 0, 0, cost
if ARGV[2] ~= 'take' then
  allowed, takes = 1, ARGV[2] == 'set' and allowance - cost - used or -cost
elseif byte(ARGV[4]) < 48 then
  allowed = 1
  if takes > left then takes = left elseif takes < 0 and (tonumber(ARGV[9]) or now) < began then takes = 0 end
elseif cost <= left then
  allowed = 1
elseif cost > allowance or ends == math.huge then
  retry_after = -1
else
  retry_after = ends - now
end
if allowed == 1 then
  used = ARGV[2] == 'set' and allowance - cost or used + takes
  if used > MOST then used = MOST elseif used < -MOST then used = -MOST end
end
left = allowance - used
if left < 0 then left = 0 elseif left > MOST then left = MOST end
local reset = used ~= 0 and ends < math.huge and ends - now or 0

-- [commit]
if anchor or allowed == 1 and takes ~= 0 then
  if ends < math.huge then
    call('SET', KEYS[1], format('%d %d', used, ends), 'PX', format('%d', (ends - now) / 1000 + 1000))
  elseif used ~= 0 then
    call('SET', KEYS[1], format('%d', used))
  else
    call('DEL', KEYS[1])
  end
end
if ARGV[2] ~= 'take' then
  -- Gateways that remember a denial forget it. Whoever may not publish grants all the same.
  redis.pcall('PUBLISH', 'tollgate.returned', KEYS[1])
end
-- [reply]
return {allowed, left, retry_after, reset, now}
