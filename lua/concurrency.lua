--[[
Acquires, renews or releases one of a key's slots. At most `limit` slots are held at once.

Source: the lock with a lease from Redis' "Distributed Locks with Redis", generalised to several holders; a `limit` of 1
is that lock. The decisions are those of crates/limiter/src/concurrency/slots.rs.

KEYS[1]  sorted set: owner -> end of its lease, unix time in us; an ended lease does not count
ARGV[1]  acquire, renew or release
ARGV[2]  owner: unique to the request, 1 to 128 bytes
ARGV[3]  limit: slots of the key, integer
ARGV[4]  lease: duration in us of the lease without renewal, integer, at most a year
ARGV[5]  now: unix time in seconds, up to 6 decimals; empty = the TIME of this server, so gateway clocks do not matter

Returns  {step, slots held, us until the first lease ends (0: no slot is held), now us}
         acquire  1 the owner holds a slot, 0 other owners hold all slots
         renew    1 renewed; 2 the lease had ended, and a free slot was acquired; 0 it had ended, and all slots are held
         release  1 released, 0 the owner held no slot
Expiry   1 s after the last lease has ended
Writes   only after a success: a step of 0 changes no other lease
Errors   an invalid argument, or a value of another type, fails without a write

redis-cli --eval lua/concurrency.lua 'concurrency_limiter.{demo.me}.leases' , acquire request-1 2 30000000 ''
--]]

local format, find, call = string.format, string.find, redis.call
local MILLION, MOST, YEAR = 1000000, 9007199254740991, 31536000000000

if #KEYS ~= 1 then return redis.error_reply('ERR expected 1 key') end
local op, owner, limit, lease = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
if op ~= 'acquire' and op ~= 'renew' and op ~= 'release' then
  return redis.error_reply('ERR operation must be acquire, renew or release')
end
if not owner or owner == '' or #owner > 128 then
  return redis.error_reply('ERR owner must be a text of 1 to 128 bytes')
end
if not limit or limit < 1 or limit > MOST or find(ARGV[3], '%D') then
  return redis.error_reply('ERR limit must be a whole number from 1 to 9007199254740991')
end
if not lease or lease < 1 or lease > YEAR or find(ARGV[4], '%D') then
  return redis.error_reply('ERR lease must be a whole number from 1 to 31536000000000')
end

local now
if ARGV[5] == '' then
  local time = call('TIME')
  now = time[1] * MILLION + time[2]
else
  local seconds = tonumber(ARGV[5])
  if not (seconds and seconds >= 0 and seconds < 8000000000) then
    return redis.error_reply('ERR now must be unix time in seconds, or empty')
  end
  local micros = seconds % 1 * MILLION + 0.5
  now = (seconds - seconds % 1) * MILLION + micros - micros % 1
end

-- Scores are doubles, which represent every microsecond until the year 2255. Numbers are formatted with %d, since Lua's
-- own conversion rounds to 14 digits.
local later = format('(%d', now)
local ends = tonumber(call('ZSCORE', KEYS[1], owner) or nil)
local held = call('ZCOUNT', KEYS[1], later, '+inf')
local holds = ends and ends > now
local step = 0
if op == 'release' then
  if holds then step, held = 1, held - 1 end
  if ends then call('ZREM', KEYS[1], owner) end
elseif holds or held < limit then
  step = (holds or op == 'acquire') and 1 or 2
  if not holds then held = held + 1 end
  -- A bounded number, since a gateway that ended may have left many. The next calls remove the rest.
  local ended = call('ZCOUNT', KEYS[1], '-inf', format('%d', now))
  if ended > 0 then call('ZREMRANGEBYRANK', KEYS[1], 0, ended < 1000 and ended - 1 or 999) end
  call('ZADD', KEYS[1], format('%d', now + lease), owner)
  -- The last lease may be another one: another gateway can have longer leases. No lease is longer than a year, but a
  -- member of another program may have any score.
  local last = call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  call('PEXPIRE', KEYS[1], format('%d', math.min(last[2] - now, YEAR) / 1000 + 1001))
end
local first = call('ZRANGEBYSCORE', KEYS[1], later, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
return {step, held, first[2] and first[2] - now or 0, now}
