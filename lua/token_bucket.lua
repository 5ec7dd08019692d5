--[[
Decides one request under a token bucket, exactly and atomically.

Source: the decisions of crates/limiter/src/algorithm/token_bucket.rs, stored in the two keys of Spring Cloud Gateway's
RedisRateLimiter, so both gateways can share buckets during a migration. Differences from Spring's script: the bucket
refills continuously (microseconds, not whole seconds), a denial writes nothing, and an expiry is never 0 s.

Spring counts whole seconds. Once it has written a bucket, this script counts whole seconds as well, until Spring has
not written for the time of an expiry. Otherwise each turn would refill the begun second again. Both together admit at
most burst + rate * T + the refill of one second. The return to microseconds leaves out the refill of one second.

Debt survives any rule. Under a smaller burst the balance is negative until it is refilled. A changed rate applies from
the decision that finds it; the time before is refilled at the rate of the last writer.

KEYS[1]  tokens at the last write, of the burst of the last writer: decimal, 6 places, rounded down; missing = a full
         bucket
KEYS[2]  time of the last write: unix time in seconds, 6 decimals. Further digits, which Spring's script ignores, hold
         the rule of the last write. Each number is preceded by its length in two digits: burst, rate, and if needed
         units, tick, the exact fraction of a token in units, and the largest debt in tokens. The last one is present if
         a larger burst left more debt than this burst. Without any further digits, Spring wrote the keys. After that, a
         zero length and the second in which Spring wrote precede the rule
ARGV[1]  rate: tokens per second, integer; with units and tick: units per tick
ARGV[2]  burst: largest number of tokens in the bucket, integer
ARGV[3]  now: unix time in seconds, up to 6 decimals; empty = the TIME of this server, so gateway clocks do not matter
ARGV[4]  cost: tokens of the request, integer; 0 only reads. A signed cost is a correction and never denies:
         +n consumes up to n more tokens, -n returns n
ARGV[5]  units: units per token, for rates that are not per second; default 1000000
ARGV[6]  tick: microseconds in which `rate` units are added; default 1; present with units
ARGV[7]  for -n: time of the request, unix time in us; what was refilled since is not returned. ARGV[5] without units

Returns  {allowed 1 or 0, whole tokens remaining, retry after us (-1: never), full again after us, now us}
Expiry   both keys: the time in which an empty bucket fills, or Spring's floor(2 * burst / rate) if that is longer
Errors   an invalid argument fails before anything is read. A stored value that is not a number counts as missing, as in
         Spring's script; a value of another type is replaced

redis-cli --eval lua/token_bucket.lua 'request_rate_limiter.{demo.me}.tokens' 'request_rate_limiter.{demo.me}.timestamp' , 10 20 '' 1
--]]

-- The script counts in units and microseconds. A burst is less than 2^53 units, so doubles represent every sum exactly,
-- and the rounding of a division never crosses an integer.
--
-- There are no local functions, and n - n % 1 replaces math.floor(n): the whole script runs for each request, and
-- creating one function takes a tenth of its time.

local byte, find, format, sub, call = string.byte, string.find, string.format, string.sub, redis.call
local MILLION, MOST = 1000000, 9007199254740991
local rate, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local units, tick = tonumber(ARGV[6] and ARGV[5] or MILLION), tonumber(ARGV[6] or 1)

-- [validate]
if #KEYS ~= 2 then return redis.error_reply('ERR expected 2 keys: tokens and timestamp') end
if not rate or rate < 1 or rate > 4294967295 or find(ARGV[1], '%D') then
  return redis.error_reply('ERR rate must be a whole number from 1 to 4294967295')
end
if not units or units < 1 or units > MOST or units % 1 ~= 0 or not tick or tick < 1 or tick > MOST or tick % 1 ~= 0 then
  return redis.error_reply('ERR units and tick must be whole numbers from 1 to 9007199254740991')
end
if not burst or burst * units > MOST or find(ARGV[2], '%D') then
  return redis.error_reply('ERR burst must be a whole number, and times units at most 9007199254740991')
end
if not cost or cost > MOST or cost < -MOST or not find(ARGV[4], '^[+-]?%d+$') then
  return redis.error_reply('ERR cost must be a whole number up to 9007199254740991')
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

local ticks = (now - now % tick) / tick
local capacity, bound, spring = burst * units, burst, false
-- The margin of 10 ms is for a bucket that fills in just under a whole second: the server's expiry clock counts
-- milliseconds and may lag behind its TIME.
local ttl = capacity / rate * tick / MILLION
ttl = ttl < 1.01 and ttl + 1.01 or 2 * ttl
local tag = format('%02d%s%02d%s', #ARGV[2], ARGV[2], #ARGV[1], ARGV[1])
if ARGV[6] then
  local u, t = format('%d', units), format('%d', tick)
  tag = format('%s%02d%s%02d%s', tag, #u, u, #t, t)
end

-- MGET, since GET fails on a value of another type. Stored numbers are rounded to the nearest millionth; numbers that
-- cannot be represented that exactly count as missing.
local stored = call('MGET', KEYS[1], KEYS[2])
local owed, anchor = 0, false
local tokens = stored[1] and tonumber(stored[1])
if tokens and tokens > -9007199254 and tokens <= MOST then
  local since = stored[2] and tonumber(sub(stored[2], 1, 17))
  local was = since and sub(stored[2], 18) or ''
  if since and was == '' then
    spring = since - since % 1
  elseif sub(was, 1, 2) == '00' then
    spring, was = tonumber(sub(was, 5, 14)) or 0, sub(was, 15)
  end
  local clock = now
  if spring and now < (spring + ttl - ttl % 1) * MILLION then
    clock = now - now % MILLION
    ticks = (clock - clock % tick) / tick
  elseif spring then
    -- Spring has gone. The refill of a second is left out: the first turn of Spring may have added it twice.
    since, spring = since + 1, false
  end
  local own, rest0 = was == tag and not ARGV[6], nil
  local burst0, rate0, units0, tick0, bound0 = burst, rate, units, tick, burst
  if ARGV[6] and sub(was, 1, #tag) == tag and #was == #tag + 2 + (tonumber(sub(was, #tag + 1, #tag + 2)) or 0) then
    own, rest0 = true, tonumber(sub(was, #tag + 3))
  elseif was ~= '' and not own then
    local numbers, at = {}, 1
    while at <= #was do
      local width = tonumber(sub(was, at, at + 1)) or #was
      numbers[#numbers + 1] = tonumber(sub(was, at + 2, at + 1 + width)) or 1
      at = at + 2 + width
    end
    burst0, rate0, units0, tick0 = numbers[1], numbers[2] or rate, numbers[3] or MILLION, numbers[4] or 1
    rest0, bound0 = numbers[5], numbers[6] or burst0
  end
  local level
  if units0 == MILLION and not rest0 then
    local part = tokens % 1 * MILLION + 0.5
    level = (tokens - tokens % 1) * MILLION + part - part % 1
  else
    local part = rest0 or tokens % 1 * units0
    level = (tokens - tokens % 1) * units0 + part - part % 1
  end
  owed = burst0 * units0 - level
  if was == '' and owed > capacity then
    -- Written by Spring: a negative balance is debt as well.
    bound0 = math.ceil(owed / units0)
  end
  if since and since > -9007199254 and since < 9007199254 then
    local part = since % 1 * MILLION + 0.5
    since = (since - since % 1) * MILLION + part - part % 1
    owed = owed - ((clock - clock % tick0) - (since - since % tick0)) / tick0 * rate0
  else
    anchor = true
  end
  if own then
    if owed > capacity then
      -- The clock was set back.
      owed, anchor = capacity, true
    end
  elseif rate0 > 0 and units0 > 0 and tick0 > 0 then
    local most = rate0 == 1 and 4503599627370496 or MOST
    local limit = math.min(bound0 * units0, most)
    if owed > limit then
      -- The clock was set back.
      owed, anchor = limit, true
    end
    if owed > 0 then
      bound = bound0
      if rate0 ~= rate or units0 ~= units or tick0 ~= tick then
        -- Convert to the units of this rule, rounded up by less than one. `up / down` is the ratio of the units.
        local up, down = units, units0
        while down ~= 0 do up, down = down, up % down end
        up, down = units / up, units0 / up
        local part = owed % units0 * up
        local exact = part <= MOST and part % down == 0
        local into = (owed - owed % units0) / units0 * units + (part > MOST and units or math.ceil(part / down))
        local same = tick0 == tick and rate0 * up <= MOST and rate0 * up == rate * down
        if tick0 ~= tick and clock % tick ~= 0 then into = into + rate end
        if into > (rate == 1 and 4503599627370496 or MOST) or same and not exact and burst * units0 <= most then
          -- The same rate, or too many units: go on in the units of the last writer.
          rate, units, tick, tag = rate0, units0, tick0, false
          ticks, capacity = (clock - clock % tick) / tick, math.min(burst * units, most)
        else
          owed, anchor = into, anchor or not (same and exact)
        end
      end
    end
  else
    owed = 0
  end
  if owed < 0 then owed = 0 end
end

local level = capacity - owed
local allowed, retry_after, takes = 0, 0, cost * units
if byte(ARGV[4]) < 48 then
  allowed = 1
  local at = tonumber(ARGV[7] or not ARGV[6] and ARGV[5])
  if at and takes < 0 then
    local refilled = (ticks - (at - at % tick) / tick) * rate
    if refilled > -takes then takes = 0 elseif refilled > 0 then takes = takes + refilled end
  end
  if takes < -owed then takes = -owed elseif takes > 0 and takes > level then takes = level > 0 and level or 0 end
elseif cost > burst then
  retry_after = -1
elseif cost == 0 or takes <= level then
  allowed = 1
else
  retry_after = (ticks + math.ceil((takes - level) / rate)) * tick - now
end
if allowed == 1 then level = level - takes end
local left = level > 0 and (level - level % units) / units or 0
local reset = (ticks + math.ceil((capacity - level) / rate)) * tick - now
if spring then
  -- Refilled at the next whole second, or a second later if Spring counts as gone by then.
  local gone_in = (spring + ttl - ttl % 1) * MILLION - now
  if allowed == 0 and cost <= burst then
    local at = retry_after + -(now + retry_after) % MILLION
    retry_after = at < gone_in and at or retry_after + MILLION
  end
  if level < capacity then
    local at = reset + -(now + reset) % MILLION
    reset = at < gone_in and at or reset + MILLION
  end
end
if reset < 0 then reset = 0 end

-- [commit]
if anchor or allowed == 1 and takes ~= 0 then
  local rest = level % units
  local whole, decimals = (level - rest) / units, rest
  if level < 0 or not tag then
    local r = format('%d', rate)
    tag = format('%02d%s%02d%s', #ARGV[2], ARGV[2], #r, r)
    if level < 0 or units ~= MILLION or tick ~= 1 then
      local u, t = format('%d', units), format('%d', tick)
      tag = format('%s%02d%s%02d%s', tag, #u, u, #t, t)
    end
  end
  if level < 0 or units ~= MILLION or tick ~= 1 then
    local r = format('%d', rest)
    tag, decimals = format('%s%02d%s', tag, #r, r), math.floor(rest / units * MILLION)
  end
  local text = format('%d.%06d', whole, decimals)
  if level < 0 then
    local b, part = format('%d', bound), -level % units
    whole, decimals = (-level - part) / units, math.ceil(part / units * MILLION)
    if decimals == MILLION then whole, decimals = whole + 1, 0 end
    tag, text = format('%s%02d%s', tag, #b, b), format('-%d.%06d', whole, decimals)
  end
  if level < 0 then
    local fills_in = (capacity - level) / rate * tick / MILLION
    ttl = math.max(ttl, fills_in < 1.01 and fills_in + 1.01 or 2 * fills_in)
  end
  local micros, seconds = now % MILLION, (now - now % MILLION) / MILLION
  if spring then micros, tag = 0, format('0010%010d%s', spring, tag) end
  ttl = format('%d', ttl)
  call('SETEX', KEYS[1], ttl, text)
  call('SETEX', KEYS[2], ttl, format('%010d.%06d%s', seconds, micros, tag))
end
-- [reply]
return {allowed, left, retry_after, reset, now}
