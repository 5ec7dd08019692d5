--[[
Revokes the leases on a key: after an operator's change of the key, they return nothing.

Source: the fencing of locks with a lease, by the time of the grant. The scripts that return leased requests compare.

KEYS[1]  time until which granted leases are revoked, unix time in us; a former, later one is replaced
ARGV[1]  ahead: time in us from now within which granted leases are revoked too, integer, at most a minute
ARGV[2]  expiry in ms: longer than a lease and its return last, integer, at most a day
ARGV[3]  now: unix time in seconds, up to 6 decimals; empty = the TIME of this server, so gateway clocks do not matter

Returns  {1, now us}
Expiry   as ARGV[2] says
Errors   an invalid argument fails before anything is read

redis-cli --eval lua/revoke.lua 'gcra.{demo.me}.revoked' , 1000000 5000 ''
--]]

local format, find, call = string.format, string.find, redis.call
local MILLION, MINUTE, DAY = 1000000, 60000000, 86400000

if #KEYS ~= 1 then return redis.error_reply('ERR expected 1 key') end
local ahead, expiry = tonumber(ARGV[1]), tonumber(ARGV[2])
if not ahead or ahead > MINUTE or find(ARGV[1], '%D') then
  return redis.error_reply('ERR ahead must be a whole number of us up to 60000000')
end
if not expiry or expiry < 1 or expiry > DAY or find(ARGV[2], '%D') then
  return redis.error_reply('ERR expiry must be a whole number of ms from 1 to 86400000')
end

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
call('SET', KEYS[1], format('%d', now + ahead), 'PX', ARGV[2])
return {1, now}
