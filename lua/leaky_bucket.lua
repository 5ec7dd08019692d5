--[[
Assigns one request its turn in a queue in which turns are an interval apart.

Source: the decisions of crates/limiter/src/algorithm/leaky_bucket.rs; the warm-up is Guava's SmoothWarmingUp. A request
takes the first returned turn that is long enough, otherwise the turn at the end of the queue. A changed rule does not
move assigned turns; a clock that was set back moves all of them along.

A caller whose replies are late names that lead, which memory does not need: its request joins the queue when the reply
arrives. Free time before that turn stays free for other callers. A denied one is told the wait of a caller without a lead.

KEYS[1]  "<next free turn> <time of this write>[ <permits> <largest number of permits> <idle at>][;<gap from> <gap to>
         ...]", unix times in us; missing = an empty, cold queue
ARGV[1]  interval: from one turn to the next, in us, integer
ARGV[2]  max wait: longest wait for a turn, in us, integer
ARGV[3]  now: unix time in seconds, up to 6 decimals; empty = the TIME of this server, so gateway clocks do not matter
ARGV[4]  cost: intervals of the request, integer; 0 only reads. A signed cost is a correction and never denies:
         +n consumes up to n more intervals, -n returns a turn of n intervals that has not begun
ARGV[5]  max queue: largest number of waiting requests
ARGV[6]  warm up: time in us in which a cold queue reaches the full rate from a third of it; 0 = none
ARGV[7]  for -n: time of the turn, unix time in us; for a request: lead, the time in us that the reply takes, default 0

Returns  {allowed 1 or 0, free places in the queue, allowed: wait for the turn, denied: retry after us (-1: never),
         queue empty after us, time of the turn}
Expiry   1 s after the queue is empty and cold
Errors   an invalid argument fails before anything is read; a stored value in another format counts as missing

redis-cli --eval lua/leaky_bucket.lua 'leaky.{demo.me}' , 100000 1000000 '' 1 5 0
--]]

local byte, find, format, call = string.byte, string.find, string.format, redis.call
local MILLION, LONGEST, MOST = 1000000, 315360000000000, 9007199254740991
local interval, reach, cost, warm_up = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4]), tonumber(ARGV[6])

-- [validate]
if #KEYS ~= 1 then return redis.error_reply('ERR expected 1 key') end
if not interval or interval < 1 or interval > LONGEST or find(ARGV[1], '%D') then
  return redis.error_reply('ERR interval must be a whole number of us from 1 to 315360000000000')
end
if not reach or reach > LONGEST or find(ARGV[2], '%D') then
  return redis.error_reply('ERR max wait must be a whole number of us up to 315360000000000')
end
if not cost or cost > MOST or cost < -MOST or not find(ARGV[4], '^[+-]?%d+$') then
  return redis.error_reply('ERR cost must be a whole number up to 9007199254740991')
end
if not tonumber(ARGV[5]) or tonumber(ARGV[5]) > MOST or find(ARGV[5], '%D') then
  return redis.error_reply('ERR max queue must be a whole number up to 9007199254740991')
end
if not warm_up or warm_up > LONGEST or find(ARGV[6], '%D') then
  return redis.error_reply('ERR warm up must be a whole number of us up to 315360000000000')
end
if ARGV[7] and not find(ARGV[4], '^[+-]') and (#ARGV[7] > 15 or find(ARGV[7], '%D') or ARGV[7] == '') then
  return redis.error_reply('ERR lead must be a whole number of us up to 999999999999999')
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

-- Turns are an interval apart, so max queue bounds the wait as well.
if ARGV[5] * interval < reach then reach = ARGV[5] * interval end
-- Fractions are computed in the same order as in Rust, since the order affects the last bit.
local threshold, most, slope = 0, 0, 0
if warm_up > 0 then
  local cold = interval * 3
  threshold = 0.5 * warm_up / interval
  most = threshold + 2 * warm_up / (interval + cold)
  slope = (cold - interval) / (most - threshold)
end

local free_at, permits, gaps, anchor = now, most, {}, false
local stored = call('GET', KEYS[1])
if stored then
  local _, _, free0, at, warmth, between = find(stored, '^(%d+) (%d+)([^;]*);?([%d ]*)$')
  if free0 and math.max(free0, at) <= MOST then
    local _, _, permits0, most0, cold_at = find(warmth, '^ ([%d.e+-]+) ([%d.e+-]+) (%d+)$')
    local back = at - now
    if back < 0 then back = 0 end
    if (cold_at or free0) - back > now then
      anchor = back > 0
      free_at = free0 - back
      for from, to in string.gmatch(between, '(%d+) (%d+)') do
        if to - back > now and math.max(from, to) <= MOST then
          from = from - back
          if from < now then from = now end
          gaps[#gaps + 1], gaps[#gaps + 2] = from, to - back
        end
      end
      permits0, most0 = tonumber(permits0 or ''), tonumber(most0 or '')
      local valid = permits0 and most0 and permits0 >= 0 and permits0 <= most0 and most0 > 0 and most0 <= MOST
      if warm_up > 0 and valid then
        permits = permits0
        if most0 ~= most then permits = permits * most / most0 end
        if now > free_at then permits = math.min(most, permits + (now - free_at) / (warm_up / most)) end
      end
      if free_at < now then free_at = now end
    end
  end
end

-- Remaining places if another rule of the list denies. It can differ from `left + cost` at the end of the queue.
local untaken = 0
if free_at - now <= reach then
  untaken = (now + reach - free_at - (now + reach - free_at) % interval) / interval + 1
end
for n = 1, #gaps, 2 do
  local length = math.min(gaps[n + 1], now + reach + interval) - gaps[n]
  if length > 0 then untaken = untaken + (length - length % interval) / interval end
end

-- `takes` counts intervals taken at the end of the queue; `gap` is the gap of a turn taken or returned elsewhere.
local allowed, wait, turn, takes, gap = 0, 0, now, 0, false
if cost < 0 then
  allowed, turn = 1, tonumber(ARGV[7]) or now
  local to, at = turn - cost * interval, 1
  while gaps[at] and gaps[at + 1] <= turn do at = at + 2 end
  if turn > now and to <= free_at and not (gaps[at] and gaps[at] < to) then
    table.insert(gaps, at, to)
    table.insert(gaps, at, turn)
    for n = at + 1, at - 1, -2 do
      if gaps[n] and gaps[n] == gaps[n + 1] then
        table.remove(gaps, n)
        table.remove(gaps, n)
      end
    end
    if gaps[#gaps] == free_at then
      table.remove(gaps)
      free_at = table.remove(gaps)
      if free_at < now then free_at = now end
    end
    gap = #gaps <= 64
  end
elseif byte(ARGV[4]) < 48 then
  allowed = 1
  if free_at - now <= reach then takes = (now + reach - free_at - (now + reach - free_at) % interval) / interval + 1 end
  if takes > cost then takes = cost end
elseif cost == 0 then
  allowed = 1
elseif (cost - 1) * interval > reach then
  wait = -1
else
  local due, length = now + (tonumber(ARGV[7]) or 0), cost * interval
  turn = math.max(free_at, due)
  for n = 1, #gaps, 2 do
    if math.max(gaps[n], due) + length <= gaps[n + 1] then
      turn, gap = math.max(gaps[n], due), n
      break
    end
  end
  wait = turn - now
  if turn - due > reach then
    -- Others deny until then: their replies may not be late.
    wait, turn, gap = turn - now - reach, now, false
  else
    allowed = 1
    local from, to = free_at, turn
    if gap then
      from, to, gaps[gap] = gaps[gap], turn, turn + length
      if gaps[gap] == gaps[gap + 1] then
        table.remove(gaps, gap)
        table.remove(gaps, gap)
      end
    else
      takes = cost
      if warm_up > 0 and turn > free_at then
        permits = math.min(most, permits + (turn - free_at) / (warm_up / most))
      end
      free_at = turn
    end
    -- Free time before the turn, if a turn fits.
    if to - from >= interval and #gaps < 64 then
      local at = gap or #gaps + 1
      table.insert(gaps, at, to)
      table.insert(gaps, at, from)
    end
  end
end
if takes > 0 then
  local micros = 0
  if warm_up > 0 then
    local spent = math.min(takes, permits)
    local above, rest = permits - threshold, spent
    if above > 0 then
      local part = math.min(above, spent)
      micros = math.floor(part * ((interval + above * slope) + (interval + (above - part) * slope)) / 2)
      rest = rest - part
    end
    micros = micros + math.floor(interval * rest) + math.floor((takes - spent) * interval)
    permits = permits - spent
  end
  if micros < takes * interval then micros = takes * interval end
  free_at = free_at + micros
end

local left, reset = 0, free_at - now
if reset <= reach then left = (reach - reset - (reach - reset) % interval) / interval + 1 end
for n = 1, #gaps, 2 do
  local length = math.min(gaps[n + 1], now + reach + interval) - gaps[n]
  if length > 0 then left = left + (length - length % interval) / interval end
end

-- [commit]
if anchor or gap or takes > 0 then
  local text, rests = format('%d %d', free_at, now), free_at
  if warm_up > 0 then
    rests = free_at + math.ceil((most - permits) * (warm_up / most))
    text = format('%s %.17g %.17g %d', text, permits, most, rests)
  end
  for n = 1, #gaps, 2 do text = format('%s%s%d %d', text, n == 1 and ';' or ' ', gaps[n], gaps[n + 1]) end
  local ttl = (rests - now) / 1000 + 1000
  call('SET', KEYS[1], text, 'PX', format('%d', ttl))
end
-- [reply]
return {allowed, left, wait, reset, turn}
