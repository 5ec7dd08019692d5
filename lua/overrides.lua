--[[
Reads, sets or removes temporary overrides of limits, which all gateways share.

Source: a hash with a version, so that a poll without a change costs one HMGET.

KEYS[1]  hash: target -> end, unix time in ms, a colon, and the override; v -> version
ARGV[1]  read, set or remove
ARGV[2]  read: version that the caller knows, or empty; set, remove: target, 1 to 8192 bytes, not v
ARGV[3]  set: override, a text of at most 4096 bytes
ARGV[4]  set: time in ms until it ends, integer, at most a year
ARGV[5]  set: maximum number of overrides

Returns  set: {1, version}, or {0, version} if there are too many; remove: {1, version}, or {0, version} without one;
         read: {version, now ms}, and if the version differs {version, now ms, target, value, ...}
Expiry   1 s after the last override ends
Writes   set and remove also delete overrides that have ended
Errors   an invalid argument, or a value of another type, fails without a write

redis-cli --eval lua/overrides.lua tollgate.overrides , set [orders] limit-5 60000 256
--]]

local format, find, match, call = string.format, string.find, string.match, redis.call
local YEAR, MOST = 31536000000, 9007199254740991

if #KEYS ~= 1 then return redis.error_reply('ERR expected 1 key') end
local op, target, text = ARGV[1], ARGV[2], ARGV[3]
local duration, maximum = tonumber(ARGV[4] or ''), tonumber(ARGV[5] or '')
if op ~= 'read' and op ~= 'set' and op ~= 'remove' then
  return redis.error_reply('ERR operation must be read, set or remove')
end
-- Of a read, the second argument is a version.
if not target or #target > 8192 or op ~= 'read' and (target == '' or target == 'v') then
  return redis.error_reply('ERR target must be a text of 1 to 8192 bytes')
end
if op == 'set' then
  if not text or #text > 4096 then return redis.error_reply('ERR override must be a text of at most 4096 bytes') end
  if not duration or duration < 1 or duration > YEAR or find(ARGV[4], '%D') then
    return redis.error_reply('ERR time must be a whole number from 1 to 31536000000')
  end
  if not maximum or maximum < 1 or maximum > 100000 or find(ARGV[5], '%D') then
    return redis.error_reply('ERR maximum must be a whole number from 1 to 100000')
  end
end

local time = call('TIME')
local now = time[1] * 1000 + (time[2] - time[2] % 1000) / 1000
local version = call('HGET', KEYS[1], 'v') or ''

if op == 'read' then
  local reply = {version, format('%d', now)}
  if version ~= target then
    local all = call('HGETALL', KEYS[1])
    for i = 1, #all, 2 do
      if all[i] ~= 'v' then
        reply[#reply + 1] = all[i]
        reply[#reply + 1] = all[i + 1]
      end
    end
  end
  return reply
end

local all, last, count, known = call('HGETALL', KEYS[1]), 0, 0, false
local ended = {}
for i = 1, #all, 2 do
  if all[i] ~= 'v' then
    -- No override is longer than a year, but a field of another program may have any number.
    local ends = math.min(tonumber(match(all[i + 1], '^(%d+):') or '0'), now + YEAR)
    if ends <= now then
      ended[#ended + 1] = all[i]
    elseif all[i] == target then
      known = true
    else
      count = count + 1
      if ends > last then last = ends end
    end
  end
end
if op == 'set' and count >= maximum or op == 'remove' and not known then return {0, version} end

-- At least the server's time in us: after a loss of data, no old version recurs.
local changed, before = time[1] * 1000000 + time[2], tonumber(version) or 0
if before >= changed and before < MOST then changed = before + 1 end
local next_version = format('%d', changed)
for i = 1, #ended do call('HDEL', KEYS[1], ended[i]) end
if op == 'set' then
  local ends = now + duration
  if ends > last then last = ends end
  call('HSET', KEYS[1], target, format('%d:', ends) .. text)
else
  call('HDEL', KEYS[1], target)
end
call('HSET', KEYS[1], 'v', next_version)
call('PEXPIRE', KEYS[1], format('%d', (last > now and last - now or 0) + 1000))
return {1, next_version}
