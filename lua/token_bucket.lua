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
         units, tick, the exact fraction of a token in units, the largest debt in tokens, and the length of a step. The
         debt is present if a larger burst left more debt than this burst, or with a step. If the bucket refills in steps,
         the time is that of the last step. Without any further digits, Spring wrote the keys. After that, a zero length
         and the second in which Spring wrote precede the rule
ARGV[1]  rate: tokens per second, integer; with units and tick: units per tick
ARGV[2]  burst: largest number of tokens in the bucket, integer
ARGV[3]  now: unix time in seconds, up to 6 decimals; empty = the TIME of this server, so gateway clocks do not matter
ARGV[4]  cost: tokens of the request, integer; 0 only reads. A signed cost is a correction and never denies:
         +n consumes up to n more tokens, -n returns n
ARGV[5]  units: units per token, for rates that are not per second; default 1000000
ARGV[6]  tick: microseconds in which `rate` units are added; default 1; present with units
ARGV[7]  for -n: time of the request, unix time in us; what was refilled since is not returned. ARGV[5] without units,
         ARGV[9] with steps
or, for a bucket that refills in steps
ARGV[7]  step: microseconds after which all of its refill is added at once, a multiple of tick
ARGV[8]  `first` = steps begin with the first request of a full bucket; or us since 1970: steps are multiples behind it

Returns  {allowed 1 or 0, whole tokens remaining, retry after us (-1: never), full again after us, now us}
Expiry   both keys: the time in which an empty bucket fills, or Spring's floor(2 * burst / rate) if that is longer; with
         steps at least 61 s after the bucket is full, so that a clock that is set back refills nothing again
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
if ARGV[8] then
  local step, anchor = tonumber(ARGV[7]), tonumber(ARGV[8])
  if not step or step < 1 or step > MOST or step % tick ~= 0 or step / tick * rate > 4294967295 then
    return redis.error_reply('ERR step must be a multiple of tick, with a refill of at most 4294967295 units')
  end
  if ARGV[8] ~= 'first' and (not anchor or anchor >= step or find(ARGV[8], '%D')) then
    return redis.error_reply('ERR anchor must be first, or a whole number of us below step')
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

-- The last refill, the units of one, and the time between two.
local base, per, every, step = now - now % tick, rate, tick, ARGV[8] and tonumber(ARGV[7])
local capacity, bound, spring = burst * units, burst, false
-- The margin of 10 ms: the server's expiry clock counts milliseconds and may lag behind its TIME.
local ttl = capacity / rate * tick / MILLION
ttl = ttl < 1.01 and ttl + 1.01 or 2 * ttl
local tag = format('%02d%s%02d%s', #ARGV[2], ARGV[2], #ARGV[1], ARGV[1])
if ARGV[6] then
  local u, t = format('%d', units), format('%d', tick)
  tag = format('%s%02d%s%02d%s', tag, #u, u, #t, t)
end
if step then
  base = ARGV[8] == 'first' and now or now - (now - tonumber(ARGV[8])) % step
  per, every, tag = step / tick * rate, step, false
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
    base = clock - clock % tick
    if step then base = ARGV[8] == 'first' and clock or clock - (clock - tonumber(ARGV[8])) % step end
  elseif spring then
    -- Spring has gone. The refill of a second is left out: the first turn of Spring may have added it twice.
    since, spring = since + 1, false
  end
  local own, rest0 = was == tag and not ARGV[6], nil
  local burst0, rate0, units0, tick0, bound0, step0 = burst, rate, units, tick, burst, 0
  if ARGV[6] and tag and sub(was, 1, #tag) == tag and #was == #tag + 2 + (tonumber(sub(was, #tag + 1, #tag + 2)) or 0) then
    own, rest0 = true, tonumber(sub(was, #tag + 3))
  elseif was ~= '' and not own then
    local numbers, at = {}, 1
    while at <= #was do
      local width = tonumber(sub(was, at, at + 1)) or #was
      numbers[#numbers + 1] = tonumber(sub(was, at + 2, at + 1 + width)) or 1
      at = at + 2 + width
    end
    burst0, rate0, units0, tick0 = numbers[1], numbers[2] or rate, numbers[3] or MILLION, numbers[4] or 1
    rest0, bound0, step0 = numbers[5], numbers[6] or burst0, numbers[7] or 0
  end
  local part = rest0 or tokens % 1 * units0 + (units0 == MILLION and 0.5 or 0)
  owed = burst0 * units0 - ((tokens - tokens % 1) * units0 + part - part % 1)
  if was == '' and owed > capacity then
    -- Written by Spring: a negative balance is debt as well.
    bound0 = math.ceil(owed / units0)
  end
  if since and since > -9007199254 and since < 9007199254 then
    local part = since % 1 * MILLION + 0.5
    since = (since - since % 1) * MILLION + part - part % 1
    if step0 == 0 then
      owed = owed - ((clock - clock % tick0) - (since - since % tick0)) / tick0 * rate0
    end
  else
    anchor = true
  end
  if own then
    if owed > capacity then
      -- The clock was set back.
      owed, anchor = capacity, true
    end
  elseif rate0 > 0 and units0 > 0 and tick0 > 0 then
    -- `owed` at the last refill `at`, and `line` now, as if the bucket refilled continuously since.
    local at, line = clock, owed
    if step0 > 0 and since then
      at = clock - (clock - since) % step0
      owed = owed - (at - since) / tick0 * rate0
      line = owed - (clock - at - (clock - at) % tick0) / tick0 * rate0
    end
    local most = rate0 == 1 and 4503599627370496 or MOST
    local limit = math.min(bound0 * units0, most)
    if line > limit then
      -- The clock was set back.
      owed, line, at, anchor = limit, limit, clock, true
    end
    if owed > 0 then
      bound = bound0
      local like = rate0 == rate and units0 == units and tick0 == tick
      if step and step0 == step and like and not anchor and (ARGV[8] == 'first' or at == base) then
        base = at
      else
        owed = line > 0 and line or 0
        if owed > 0 and (not like or step0 > 0 and not step and tick > 1) then
          -- Convert to the units of this rule, rounded up by less than one. `up / down` is the ratio of the units.
          local up, down = units, units0
          while down ~= 0 do up, down = down, up % down end
          up, down = units / up, units0 / up
          local part = owed % units0 * up
          local exact = part <= MOST and part % down == 0
          local into = (owed - owed % units0) / units0 * units + (part > MOST and units or math.ceil(part / down))
          local max, in_steps = rate == 1 and 4503599627370496 or MOST, step or step0 > 0
          local same = tick0 == tick and (tick == 1 or not in_steps)
          if not same and not step and clock % tick ~= 0 then into = into + rate end
          same = same and rate0 * up <= MOST and rate0 * up == rate * down
          if not in_steps and (into > max or same and not exact and burst * units0 <= most) then
            -- The same rate, or too many units: go on in the units of the last writer.
            rate, units, tick, tag = rate0, units0, tick0, false
            base, per, every, capacity = clock - clock % tick, rate, tick, math.min(burst * units, most)
          else
            owed, anchor = into < max and into or max, anchor or not (same and exact)
          end
        end
        if step then
          -- Steps of another rule, or none: the refill since the last step of this rule is still to come.
          owed = (like and line or owed) + math.ceil((clock - base) / tick) * rate
          anchor = owed > 0
        end
      end
      -- The last step is a time that is counted exactly.
      if step then owed = math.min(owed, (4503599627370496 - 4503599627370496 % step) / step * per, MOST) end
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
  local at = tonumber(ARGV[9] or not step and (ARGV[7] or not ARGV[6] and ARGV[5]))
  if at and takes < 0 then
    local refilled = math.ceil((base - at) / every) * per
    if refilled > -takes then takes = 0 elseif refilled > 0 then takes = takes + refilled end
  end
  if takes < -owed then takes = -owed elseif takes > 0 and takes > level then takes = level > 0 and level or 0 end
elseif cost > burst then
  retry_after = -1
elseif cost == 0 or takes <= level then
  allowed = 1
else
  retry_after = base + math.ceil((takes - level) / per) * every - now
end
if allowed == 1 then level = level - takes end
local left = level > 0 and (level - level % units) / units or 0
local reset = base + math.ceil((capacity - level) / per) * every - now
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
    if level < 0 or units ~= MILLION or tick ~= 1 or step then
      local u, t = format('%d', units), format('%d', tick)
      tag = format('%s%02d%s%02d%s', tag, #u, u, #t, t)
    end
  end
  if level < 0 or units ~= MILLION or tick ~= 1 or step then
    local r = format('%d', rest)
    tag, decimals = format('%s%02d%s', tag, #r, r), math.floor(rest / units * MILLION)
  end
  local text = format('%d.%06d', whole, decimals)
  if level < 0 then
    local part = -level % units
    whole, decimals = (-level - part) / units, math.ceil(part / units * MILLION)
    if decimals == MILLION then whole, decimals = whole + 1, 0 end
    text = format('-%d.%06d', whole, decimals)
  end
  if level < 0 or step then
    local b = format('%d', level < 0 and bound or burst)
    tag = format('%s%02d%s', tag, #b, b)
  end
  if step then
    local e = format('%d', step)
    tag, ttl = format('%s%02d%s', tag, #e, e), math.max(ttl, reset / MILLION + 61)
  elseif level < 0 then
    local fills_in = (capacity - level) / rate * tick / MILLION
    ttl = math.max(ttl, fills_in < 1.01 and fills_in + 1.01 or 2 * fills_in)
  end
  local written = step and base or now
  local micros, seconds = written % MILLION, (written - written % MILLION) / MILLION
  if spring then micros, tag = step and micros or 0, format('0010%010d%s', spring, tag) end
  ttl = format('%d', ttl)
  call('SETEX', KEYS[1], ttl, text)
  call('SETEX', KEYS[2], ttl, format('%010d.%06d%s', seconds, micros, tag))
end
-- [reply]
return {allowed, left, retry_after, reset, now}
