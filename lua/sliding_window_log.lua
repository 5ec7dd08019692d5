--[[
Decides one request under an exact sliding window, from a log of admitted requests.

Source: the decisions of crates/limiter/src/algorithm/sliding_window_log.rs. Tokens consumed at t count until t +
window. A denial writes nothing, unless its window was not noted lately. If the clock was set back, tokens with a time in
the future count as consumed now. With a limit above 1000, requests of one grain (window / 1000, rounded up) share an
entry with the time of the last one, so a log has no more than 1001 counted entries, whatever requests cost.

Rules with up to 4 windows may use one log. It notes the windows in use, until one was silent for three times its length.
Each write drops up to 64 entries that no window in use needs: those older than the window, or followed by as many tokens
as the limit. A window that is new to the log counts the entries that the others need. With several windows, entries behind
the newest 1000 are merged by the grains of the larger limits.

KEYS[1]  sorted set with one member per request. The score is the time of consumption, unix time in us. The member is
         `BEFORE:COUNT`: tokens consumed before the entry (modulo 2^52), and the tokens of the entry. The first members are
         the windows in use, `LENGTH:USED:LIMIT` with the score 0: the length in us, the ms of the last use, rounded up,
         and the largest limit, 1001 for all above 1000
ARGV[1]  limit: tokens within any window length, integer, at most 1000000000000
ARGV[2]  window: length in us, integer
ARGV[3]  now: unix time in seconds, up to 6 decimals; empty = the TIME of this server, so gateway clocks do not matter
ARGV[4]  cost: tokens of the request, integer; 0 only reads. A signed cost is a correction and never denies:
         +n consumes up to n more tokens, -n returns n
ARGV[5]  for -n: time of the request, unix time in us; only tokens of that time's entry are returned. None are if more than
         1000 entries would be rewritten, which only a log of several windows has

Returns  {allowed 1 or 0, tokens remaining, retry after us (-1: never), no token counts any more after us, now us}
Expiry   1 s after the end of the longest window in use with the last consumed token
Errors   an invalid argument fails before anything is read; a member of another program fails when it is read

redis-cli --eval lua/sliding_window_log.lua 'entries.{demo.me}' , 20 10000000 '' 1
--]]

local byte, format, find, call = string.byte, string.format, string.find, redis.call
local MILLION, MOST = 1000000, 9007199254740991
local limit, window, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])

-- [validate]
if #KEYS ~= 1 then return redis.error_reply('ERR expected 1 key') end
if not limit or limit > MILLION * MILLION or find(ARGV[1], '%D') then
  return redis.error_reply('ERR limit must be a whole number up to 1000000000000')
end
if not window or window < 1 or window > MOST or find(ARGV[2], '%D') then
  return redis.error_reply('ERR window must be a whole number of us from 1 to 9007199254740991')
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

local key, over, WRAP, FOREIGN = KEYS[1], 0, 4503599627370496, 'the log has a member of another program'
local grain = limit > 1000 and (window + -window % 1000) / 1000 or 1
-- Windows: their number, those in use, and that of the rule; the longest in use; the first members; the index of the first
-- entry.
local log = {stored = 0, live = {}, mine = nil, longest = 0, head = call('ZRANGE', key, 0, 4, 'WITHSCORES'), front = 1}

-- Returns the entry at an index of a reply, nil without one. Fails on a member of another program, since it may hide any
-- number of tokens.
local function entry(found, at)
  if not found[at] or tonumber(found[at + 1]) <= 0 then return nil end
  local before, count = string.match(found[at], '^(%d+):(%d+)$')
  if not before then error(FOREIGN) end
  return {member = found[at], at = tonumber(found[at + 1]), before = tonumber(before), count = tonumber(count)}
end

while log.head[log.front] and tonumber(log.head[log.front + 1]) <= 0 do
  local length, used, known = string.match(log.head[log.front], '^(%d+):(%d+):(%d+)$')
  if not length then error(FOREIGN) end
  local note = {length = tonumber(length), used = tonumber(used), limit = tonumber(known)}
  note.age = math.max(0, now - note.used * 1000)
  log.stored, log.front = log.stored + 1, log.front + 2
  if note.age < 3 * note.length then
    log.live[#log.live + 1], log.longest = note, math.max(log.longest, note.length)
    if note.length == window then log.mine = note end
  end
end

local first, newest = nil, #log.head == 10 and call('ZREVRANGE', key, 0, 0, 'WITHSCORES') or log.head
newest = entry(newest, #newest - 1)
log.over = not (newest and newest.at + log.longest > now)
if not log.over then
  log.span = log.mine and window or math.min(window, log.longest)
  over = format('%d', math.max(now - log.span, 0))
  first = entry(log.head, log.front)
  if not first or first.at <= tonumber(over) then
    first = entry(call('ZRANGEBYSCORE', key, '(' .. over, '+inf', 'WITHSCORES', 'LIMIT', 0, 1), 1)
  end
end
local used = first and (newest.before + newest.count - first.before) % WRAP or 0
local anchor = newest and newest.at > now

local room = limit - used
if room < 0 then room = 0 end
local allowed, retry_after, takes, given = 0, 0, cost, nil
if byte(ARGV[4]) < 48 then
  allowed = 1
  if takes > room then
    takes = room
  elseif takes < 0 then
    local at = tonumber(ARGV[5])
    if at and not anchor and first and at > tonumber(over) then
      given = entry(call('ZRANGEBYSCORE', key, ARGV[5], '+inf', 'WITHSCORES', 'LIMIT', 0, 1), 1)
    end
    -- Later requests of the same grain have moved the entry.
    if given and given.at - given.at % grain ~= at - at % grain then given = nil end
    if given then
      local rank = call('ZRANK', key, given.member)
      if math.min(rank - log.stored, call('ZCARD', key) - 1 - rank) > 1000 then given = nil end
    end
    if not given then takes = 0 elseif takes < -given.count then takes = -given.count end
  end
elseif cost <= room then
  allowed = 1
elseif cost > limit then
  retry_after = -1
else
  -- All counted tokens except the newest `limit - cost` must expire first: the entry with the last of them is searched.
  local expire, at = used - (limit - cost), first.at
  if first.count < expire then
    local low, high = call('ZCOUNT', key, '-inf', over) + 1, call('ZCARD', key) - 1
    while low <= high do
      local middle = (low + high - (low + high) % 2) / 2
      local found = entry(call('ZRANGE', key, middle, middle, 'WITHSCORES'), 1)
      if (found.before + found.count - first.before) % WRAP >= expire then
        at, high = found.at, middle - 1
      else
        low = middle + 1
      end
    end
  end
  retry_after = (at < now and at or now) + window - now
end
local due = allowed ~= 1 and used > 0 and not (log.mine and log.mine.age * 2 < window * 3)
if allowed == 1 then used = used + takes end
local left = limit - used
if left < 0 then left = 0 end
local reset = 0
if allowed == 1 and takes > 0 then
  reset = window
elseif used > 0 then
  -- A request that only reads does not note a window that is new.
  reset = anchor and window or newest.at + (allowed == 1 and takes == 0 and log.span or window) - now
end

-- [commit]
if given and takes < 0 then
  -- Either the tokens before all later entries become fewer, or those before it and all earlier ones become more.
  local from, last = call('ZRANK', key, given.member), call('ZCARD', key) - 1
  local earlier = from - log.stored < last - from
  if earlier then from, last = log.stored, from end
  local entries, members = call('ZRANGE', key, from, last, 'WITHSCORES'), {}
  -- All entries are read before the first is removed: a script that fails takes back no write.
  for n = 1, #entries, 2 do entry(entries, n) end
  call('ZREMRANGEBYRANK', key, from, last)
  for n = 1, #entries, 2 do
    local before, count = string.match(entries[n], '^(%d+):(%d+)$')
    local is_given = entries[n] == given.member
    if is_given then count = count + takes end
    if earlier then before = (before - takes) % WRAP elseif not is_given then before = (before + takes) % WRAP end
    if not is_given or count > 0 then
      members[#members + 1] = entries[n + 1]
      members[#members + 1] = format('%d:%d', before, count)
    end
    if #members == 2000 or n == #entries - 1 and #members > 0 then
      call('ZADD', key, unpack(members))
      members = {}
    end
  end
elseif anchor or due or allowed == 1 and takes > 0 then
  local sum, gone = newest and newest.before + newest.count or 0, log.stored
  local live, mine, stamp = log.live, log.mine, (now + -now % 1000) / 1000
  local known, changed, next_entries, at = limit > 1000 and 1001 or limit, #live < gone or log.over, log.head, log.front

  -- A window that is new to the log does not count what the others do not need: all of it is dropped.
  local counted = log.over and 0 or log.longest
  if newest and not mine and counted < window then
    local from = format('%d', math.max(now - window, 0))
    local dead = entry(call('ZRANGEBYSCORE', key, '(' .. from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1), 1)
    if dead and dead.at <= now - counted then
      gone = call('ZCOUNT', key, '-inf', format('%d', now - counted))
      next_entries, at, changed = call('ZRANGE', key, gone, gone + 64, 'WITHSCORES'), 1, true
    end
  end

  -- Notes the window.
  if log.over then live, mine = {}, nil end
  for _, note in ipairs(live) do
    if note.used > stamp then note.used, changed = stamp, true end
  end
  if not mine then
    mine = {length = window, used = stamp, limit = known, age = 0}
    live[#live + 1], changed = mine, true
  elseif mine.age * 4 >= window or known > mine.limit then
    mine.used, mine.limit, changed = stamp, math.max(known, mine.limit), true
  end
  if #live > 4 then
    local least = 1
    for n = 2, #live - 1 do
      local a, b = live[n], live[least]
      if a.used < b.used or a.used == b.used and a.length < b.length then least = n end
    end
    table.remove(live, least)
  end
  local longest, coarse = window, false
  for _, note in ipairs(live) do
    note.grain = note.limit > 1000 and (note.length + -note.length % 1000) / 1000 or 1
    grain = math.min(grain, note.grain)
    longest, coarse = math.max(longest, note.length), coarse or note.limit > 1000 and #live > 1
  end

  -- Drops the first entries that no window in use needs.
  local rest, dropped = entry(next_entries, at), 0
  while rest and dropped < 64 do
    local is_needed = false
    for _, note in ipairs(live) do
      local is_full = note.limit <= 1000 and note ~= mine and (sum - rest.before - rest.count) % WRAP >= note.limit
      if not is_full and rest.at + note.length > now then is_needed = true end
    end
    if is_needed then break end
    gone, dropped, at, changed = gone + 1, dropped + 1, at + 2, true
    local is_read = not next_entries[at] and next_entries == log.head and #next_entries == 10
    if is_read then next_entries, at = call('ZRANGE', key, gone, gone + 64, 'WITHSCORES'), 1 end
    rest = entry(next_entries, at)
  end
  if changed and gone > 0 then call('ZREMRANGEBYRANK', key, 0, gone - 1) end

  -- Merges some entries of one grain behind the newest thousand.
  if coarse then
    local offset = changed and 0 or log.stored
    local old = call('ZCARD', key) - offset - 1000
    if old >= 16 then
      local start = offset + now % (old - 15)
      local entries, merged, last, is_merged = call('ZRANGE', key, start, start + 15, 'WITHSCORES'), {}, nil, false
      for n = 1, 32, 2 do
        local one = entry(entries, n)
        for _, note in ipairs(live) do
          local shares = note.limit > 1000 and one.at + note.length > now
          if shares and (not one.grain or note.grain < one.grain) then one.grain = note.grain end
        end
        one.number = one.grain and (one.at - one.at % one.grain) / one.grain
        if last and one.grain and one.grain == last.grain and one.number == last.number then
          last.at, last.count, is_merged = one.at, last.count + one.count, true
        else
          last = one
          merged[#merged + 1] = one
        end
      end
      if is_merged then
        local members = {}
        for _, one in ipairs(merged) do
          members[#members + 1] = format('%d', one.at)
          members[#members + 1] = format('%d:%d', one.before, one.count)
        end
        call('ZREMRANGEBYRANK', key, start, start + 15)
        call('ZADD', key, unpack(members))
      end
    end
  end

  local score, count, last, added = format('%d', now), allowed == 1 and takes or 0, rest and newest, {}
  local total = sum + count
  if anchor and rest then
    local ahead = call('ZCOUNT', key, '(' .. score, '+inf')
    last = entry(call('ZREVRANGE', key, ahead, ahead, 'WITHSCORES'), 1)
    count = count + (sum - (last and last.before + last.count or rest.before)) % WRAP
    call('ZREMRANGEBYRANK', key, -ahead, -1)
  end
  if count > 0 then
    if last and last.at - last.at % grain == now - now % grain then
      count = count + last.count
      call('ZREMRANGEBYRANK', key, -1, -1)
    end
    added = {score, format('%d:%d', (total - count) % WRAP, count)}
  end
  if changed then
    for _, note in ipairs(live) do
      added[#added + 1] = '0'
      added[#added + 1] = format('%d:%d:%d', note.length, note.used, note.limit)
    end
  end
  if added[1] then call('ZADD', key, unpack(added)) end
  call('PEXPIRE', key, format('%d', longest / 1000 + 1000))
end
-- [reply]
return {allowed, left, retry_after, reset, now}
