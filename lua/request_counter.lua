--[[
Adds one batch of counts to a hash, exactly once even if it is sent several times.

Source: idempotent receiver by sequence number, as in TCP (RFC 9293 section 3.4) and Kafka producers. A sender numbers
its batches in increasing order and sends one at a time, so the last applied number identifies all applied batches.

KEYS[1]  hash of integers: the counts of one key id in one period
KEYS[2]  number of the sender's last batch added to that hash
ARGV[1]  number of this batch: integer from 1 to 9007199254740991, greater than that of the sender's previous batch
ARGV[2]  expiry of the hash: whole seconds, 1 to 9007199254. Set if the hash has none: when it is created, or after the
         expiry was removed. An existing expiry stays
ARGV[3]  expiry of KEYS[2]: whole seconds, 1 to 9007199254; longer than the time within which a batch may be sent again
ARGV[4...] pairs of a field and its increment: integer from 0 to 999999999999999999

Returns  1 added; 0 already added before, nothing is written; -1 cannot be added, nothing is written: a key holds
         another type, a field is not an integer, or the sum does not fit into 64 bits
Errors   an invalid argument fails before anything is read

redis-cli --eval lua/request_counter.lua 'request_counter.{demo.me}.2026-11-21' 'request_counter.{demo.me}.2026-11-21.gw1' , 1 3024000 86400 GET.2xx.requests 1 GET.2xx.bytes_out 512
--]]

local call, pcall = redis.call, redis.pcall

if #KEYS ~= 2 then return redis.error_reply('ERR expected 2 keys: counts and last batch') end
local batch, ttl, marker_ttl = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if not (batch and batch >= 1 and batch <= 9007199254740991 and batch % 1 == 0) then
  return redis.error_reply('ERR batch must be a whole number from 1 to 9007199254740991')
end
if not (ttl and ttl >= 1 and ttl <= 9007199254 and ttl % 1 == 0) then
  return redis.error_reply('ERR expiry of the counts must be whole seconds from 1 to 9007199254')
end
if not (marker_ttl and marker_ttl >= 1 and marker_ttl <= 9007199254 and marker_ttl % 1 == 0) then
  return redis.error_reply('ERR expiry of the last batch must be whole seconds from 1 to 9007199254')
end
if #ARGV < 5 or #ARGV % 2 == 0 then return redis.error_reply('ERR fields and increments must be pairs') end
for i = 4, #ARGV, 2 do
  if ARGV[i] == '' then return redis.error_reply('ERR field must be a name') end
  if #ARGV[i + 1] > 18 or not string.find(ARGV[i + 1], '^%d+$') then
    return redis.error_reply('ERR increment must be a whole number from 0 to 999999999999999999')
  end
end

local last = pcall('GET', KEYS[2])
if type(last) == 'table' then return -1 end
if last and (tonumber(last) or 0) >= batch then return 0 end

-- Check all fields before the first write: a script that fails halfway keeps its writes.
for i = 4, #ARGV, 2 do
  local stored = pcall('HGET', KEYS[1], ARGV[i])
  if type(stored) == 'table' then return -1 end
  if stored then
    -- A double near 2^63 is inexact by up to 512, so the bound is slightly below 2^63.
    if not string.find(stored, '^-?%d+$') or tonumber(stored) + tonumber(ARGV[i + 1]) > 9223372036854770000 then
      return -1
    end
  end
end

for i = 4, #ARGV, 2 do call('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1]) end
if call('TTL', KEYS[1]) < 0 then call('EXPIRE', KEYS[1], ARGV[2]) end
call('SET', KEYS[2], ARGV[1], 'EX', ARGV[3])
return 1
