--[[
Decides one request under a token bucket that is stored as one timestamp (Generic Cell Rate Algorithm).

Source: ITU-T I.371; the stored time at which the bucket is full again is its theoretical arrival time. The decisions
are those of crates/limiter/src/algorithm/token_bucket.rs. The script gives the verdicts of lua/token_bucket.lua from a
third of the memory, but Spring Cloud Gateway cannot read its state.

Debt survives any rule. Under a smaller burst the balance is negative until it is refilled. A changed rate applies from
the decision that finds it; the time before is refilled at the rate of the last writer.

KEYS[1]  "<full again at, in ticks since 1970> <rate> <bound>[ <units> <tick>][ +<units added by rounding that up>]", with
         the rule of the last write; missing = a full bucket. The bound is the largest debt in tokens: the burst, unless a
         larger burst left a larger debt. If the bucket refills in steps, the first number is in us, and the length of a
         step follows the tick
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
Expiry   1 s after the bucket is full; with steps 61 s after, so that a clock that is set back refills nothing again
Errors   an invalid argument fails before anything is read; a stored value in another format counts as missing

redis-cli --eval lua/gcra.lua 'gcra.{demo.me}' , 10 20 '' 1
--]]

local byte, find, format, sub, call = string.byte, string.find, string.format, string.sub, redis.call
local MILLION, MOST = 1000000, 9007199254740991
local rate, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local units, tick = tonumber(ARGV[6] and ARGV[5] or MILLION), tonumber(ARGV[6] or 1)

-- [validate]
if #KEYS ~= 1 then return redis.error_reply('ERR expected 1 key') end
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
local capacity, bound = burst * units, burst
local tag = ARGV[1] .. ' ' .. ARGV[2]
if ARGV[6] then tag = tag .. ' ' .. ARGV[5] .. ' ' .. ARGV[6] end
if step then
  base = ARGV[8] == 'first' and now or now - (now - tonumber(ARGV[8])) % step
  per, every, tag = step / tick * rate, step, tag .. ' ' .. ARGV[7]
end
local owed, anchor = 0, false
local stored = call('GET', KEYS[1])
if stored then
  -- Fast path: 16 digits, the same rule, and the optional rounding.
  local rest = sub(stored, 18)
  local rem = rest == tag and 0 or sub(rest, 1, #tag + 2) == tag .. ' +' and tonumber(sub(rest, #tag + 3))
  local full_at0 = rem and not step and tonumber(sub(stored, 1, 16))
  if full_at0 then
    owed = (full_at0 - base / tick) * rate - rem
    if owed > capacity then
      -- The clock was set back.
      owed, anchor = capacity, true
    end
  else
    local form = '^(%d+) (%d+) (%d+) ?(%d*) ?(%d*) ?(%d*) ?%+?(%d*)$'
    local _, _, full_at, rate0, bound0, units0, tick0, step0, rem0 = find(stored, form)
    rate0, bound0, units0, tick0 = tonumber(rate0), tonumber(bound0), tonumber(units0) or MILLION, tonumber(tick0) or 1
    step0, rem0 = tonumber(step0) or 0, tonumber(rem0) or 0
    if rate0 and rate0 > 0 and units0 > 0 and tick0 > 0 then
      -- `owed` at the last refill `at`, and `line` now, as if the bucket refilled continuously since.
      local clock, at, line = now, now, nil
      if step0 > 0 then
        local steps = math.ceil((full_at - now) / step0)
        at = full_at - steps * step0
        owed = steps * (step0 / tick0 * rate0) - rem0
        line = owed - (now - at - (now - at) % tick0) / tick0 * rate0
      else
        owed = (full_at - (now - now % tick0) / tick0) * rate0 - rem0
        line = owed
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
    end
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
local full_in = math.ceil((capacity - level) / per)
local reset = base + full_in * every - now
if reset < 0 then reset = 0 end

-- [commit]
if anchor or allowed == 1 and takes ~= 0 then
  if level < 0 or not tag then
    tag = format('%d %d', rate, level < 0 and bound or burst)
    if units ~= MILLION or tick ~= 1 or step then tag = format('%s %d %d', tag, units, tick) end
    if step then tag = format('%s %d', tag, step) end
  end
  local rem1 = full_in * per - (capacity - level)
  local full_at = step and base + full_in * step or base / tick + full_in
  local text = format(rem1 == 0 and '%016d %s' or '%016d %s +%d', full_at, tag, rem1)
  local ttl = reset / 1000 + (step and 61000 or 1000)
  call('SET', KEYS[1], text, 'PX', format('%d', ttl))
end
-- [reply]
return {allowed, left, retry_after, reset, now}
