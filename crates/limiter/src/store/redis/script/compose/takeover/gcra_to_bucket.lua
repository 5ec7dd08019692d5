-- Converts the `state` of GCRA to the strings `two` of a token bucket, as if they were written now.
local _, _, full_at, rate, burst, units, tick, added = find(state, '^(%d+) (%d+) (%d+) ?(%d*) ?(%d*) ?%+?(%d*)$')
rate, burst, units, tick = tonumber(rate), tonumber(burst), tonumber(units) or MILLION, tonumber(tick) or 1
if rate and rate > 0 and units > 0 and tick > 0 then
  local owed = (full_at - (now - now % tick) / tick) * rate - (tonumber(added) or 0)
  owed = math.min(owed, burst * units, rate == 1 and 4503599627370496 or MOST)
  if owed > 0 then
    local level = burst * units - owed
    local rest = level % units
    local b, r, decimals = format('%d', burst), format('%d', rate), rest
    local tag = format('%02d%s%02d%s', #b, b, #r, r)
    if units ~= MILLION or tick ~= 1 then
      local u, t, p = format('%d', units), format('%d', tick), format('%d', rest)
      tag = format('%s%02d%s%02d%s%02d%s', tag, #u, u, #t, t, #p, p)
      decimals = math.floor(rest / units * MILLION)
    end
    local seconds, micros = (now - now % MILLION) / MILLION, now % MILLION
    two = {format('%d.%06d', (level - rest) / units, decimals), format('%010d.%06d%s', seconds, micros, tag)}
  end
end
