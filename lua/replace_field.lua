--[[
Replaces the value of a hash's field, if it still has the value that the caller has read.

Source: compare and set. Values are compared as texts, so entries of API keys keep the JSON that their owner has written:
cjson would turn an empty list into an object.

KEYS[1]  hash
ARGV[1]  field, not empty
ARGV[2]  value that the caller has read
ARGV[3]  new value

Returns  {1} if it is replaced, {0} if the field has another value, or none
Expiry   unchanged: the hash is the operator's, and never without one only if the operator has set it
Errors   an invalid argument, or a key of another type, fails without a write

redis-cli hset api-keys 9f86d081 '{"id":"alice"}'
redis-cli --eval lua/replace_field.lua api-keys , 9f86d081 '{"id":"alice"}' '{"id":"alice","disabled":true}'
--]]

local call = redis.call

if #KEYS ~= 1 then return redis.error_reply('ERR expected 1 key') end
if not ARGV[3] or ARGV[1] == '' then
  return redis.error_reply('ERR expected a field, its value, and the new value')
end

if call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return {0} end
call('HSET', KEYS[1], ARGV[1], ARGV[3])
return {1}
