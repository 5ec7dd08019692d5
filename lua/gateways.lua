--[[
Records a heartbeat or the shutdown of a gateway, and counts the live gateways.

Source: presence as a sorted set of members with the time of their last heartbeat.

KEYS[1]  sorted set: gateway -> time of its last heartbeat, unix time in us
ARGV[1]  beat or leave
ARGV[2]  gateway: unique to the process, 1 to 128 bytes
ARGV[3]  silence: time in us after which a gateway no longer counts, integer, at most a year
ARGV[4]  now: unix time in seconds, up to 6 decimals; empty = the TIME of this server, so gateway clocks do not matter

Returns  {live gateways, now us}
Expiry   1 s after the last gateway stops counting
Writes   the heartbeat; removes silent gateways, and heartbeats in the future. These occur after a failover to a
         server with a slow clock, and the gateways repeat them soon
Errors   an invalid argument, or a value of another type, fails without a write

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

-- Scores are doubles, which represent every microsecond until the year 2255. Numbers are formatted with %d, since Lua's
-- own conversion rounds to 14 digits.
if op == 'beat' then
  call('ZREMRANGEBYSCORE', KEYS[1], '-inf', format('%d', now - silence))
  call('ZREMRANGEBYSCORE', KEYS[1], format('(%d', now), '+inf')
  call('ZADD', KEYS[1], format('%d', now), gateway)
  call('PEXPIRE', KEYS[1], format('%d', silence / 1000 + 1001))
else
  call('ZREM', KEYS[1], gateway)
end
return {call('ZCOUNT', KEYS[1], format('(%d', now - silence), format('%d', now)), now}
