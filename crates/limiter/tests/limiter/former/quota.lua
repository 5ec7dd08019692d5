-- lua/quota.lua before several calendars had periods of their own: one period per key.

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

local used, began, ends, length, known, anchor = 0, now, math.huge, math.huge, false, false
if ARGV[5] ~= '' then
  local first, second, third, last = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
  if now < first or now >= last then
    return redis.error_reply('ERR the clocks of this server and of the gateway differ by more than a window')
  end
  if now < second then
    ends, length = second, second - first
  elseif now < third then
    ends, length = third, third - second
  else
    ends, length = last, last - third
  end
end
local stored = call('GET', KEYS[1])
if stored then
  local _, _, taken, over, start = find(stored, '^(-?%d+) ?(%d*) ?(%d*)$')
  over = tonumber(over) or 0
  if over == 0 then over = math.huge end
  if taken and over > now then
    used, known = tonumber(taken), true
    if used ~= 0 then
      if over > ends then anchor = true else ends = over end
    end
    began = tonumber(start) or length < math.huge and ends - length or 0
    if began > now then began = now end
  end
end

local left = allowance - used
if left < 0 then left = 0 elseif left > MOST then left = MOST end
local allowed, retry_after, takes = 0, 0, cost
if ARGV[2] ~= 'take' then
  allowed, takes = 1, ARGV[2] == 'set' and allowance - cost - used or -cost
elseif byte(ARGV[4]) < 48 then
  allowed = 1
  if takes > left then
    takes = left
  elseif takes < 0 and not (known and (tonumber(ARGV[9]) or now) >= began) then
    takes = 0
  end
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
    call('SET', KEYS[1], format('%d %d %d', used, ends, began), 'PX', format('%d', (ends - now) / 1000 + 1000))
  else
    call('SET', KEYS[1], format('%d 0 %d', used, began))
  end
end
if ARGV[2] ~= 'take' then
  -- Gateways drop a cached denial. Without the permission to publish, the grant still succeeds.
  redis.pcall('PUBLISH', 'tollgate.returned', KEYS[1])
end
-- [reply]
return {allowed, left, retry_after, reset, now}
