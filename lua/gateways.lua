--[[
Notes that a gateway lives, or that it ends, and counts those that live.

Source: a set of members with the moment of their last word, as presence is kept in Redis.

KEYS[1]  sorted set, gateway -> when it spoke last, in us since 1970
ARGV[1]  beat or leave
ARGV[2]  gateway: unique to the process, 1 to 128 bytes
ARGV[3]  silence: us after which a gateway counts no more, whole, a year at most
ARGV[4]  now: unix time in seconds, up to 6 places; empty = this server's TIME, so that gateways' clocks don't matter

Returns  {gateways that live, now us}
Expiry   a second after the last gateway counts no more
Writes   the gateway's own word; drops those that are silent, and those that spoke in what is the future here, as after a
         failover to a server whose clock is behind: they speak again before long
Errors   a bad argument, or a value of another type, is refused and nothing is written

redis-cli --eval lua/gateways.lua tollgate.gateways , beat gateway-1 5000000 ''
--]]

local format, find, call = string.format, string.find, redis.call
local MILLION, YEAR = 1000000, 31536000000000

if #KEYS ~= 1 then return redis.error_reply('ERR expected 1 key') end
local op, gateway, silence = ARGV[1], ARGV[2], tonumber(ARGV[3])
if op ~= 'beat' and op ~= 'leave' then return redis.error_reply('ERR operation must be beat or leave') end
if not gateway or gateway == '' or #gateway > 128 then
  return redis.error_reply('ERR gateway must be a text of 1 to 128 bytes')
end
if not silence or silence < 1 or silence > YEAR or find(ARGV[3], '%D') then
  return redis.error_reply('ERR silence must be a whole number from 1 to 31536000000000')
end

local now
if ARGV[4] == '' then
  local time = call('TIME')
  now = time[1] * MILLION + time[2]
else
  local seconds = tonumber(ARGV[4])
  if not (seconds and seconds >= 0 and seconds < 8000000000) then
    return redis.error_reply('ERR now must be unix time in seconds, or empty')
  end
  local micros = seconds % 1 * MILLION + 0.5
  now = (seconds - seconds % 1) * MILLION + micros - micros % 1
end

-- Scores are doubles, which hold every microsecond until the year 2255. Numbers are written with %d: Lua itself would
-- round them to 14 digits.
if op == 'beat' then
  call('ZREMRANGEBYSCORE', KEYS[1], '-inf', format('%d', now - silence))
  call('ZREMRANGEBYSCORE', KEYS[1], format('(%d', now), '+inf')
  call('ZADD', KEYS[1], format('%d', now), gateway)
  call('PEXPIRE', KEYS[1], format('%d', silence / 1000 + 1001))
else
  call('ZREM', KEYS[1], gateway)
end
return {call('ZCOUNT', KEYS[1], format('(%d', now - silence), format('%d', now)), now}
