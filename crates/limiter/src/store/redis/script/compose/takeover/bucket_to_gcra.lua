-- Converts the strings `two` of a token bucket to the `state` of GCRA. Numbers that they omit are those of the rule.
local tokens, stamp = tonumber(two[1]), two[2] or ''
local since, tag = tonumber(sub(stamp, 1, 17)), sub(stamp, 18)
if tokens and tokens > -9007199254 and tokens <= MOST then
  local spring = tag == '' or sub(tag, 1, 2) == '00'
  if sub(tag, 1, 2) == '00' then tag = sub(tag, 15) end
  local numbers, at = {}, 1
  while at <= #tag do
    local width = tonumber(sub(tag, at, at + 1)) or #tag
    numbers[#numbers + 1] = tonumber(sub(tag, at + 2, at + 1 + width)) or 1
    at = at + 2 + width
  end
  if numbers[1] then
    burst, rate, units, tick = numbers[1], numbers[2] or rate, numbers[3] or MILLION, numbers[4] or 1
  end
  local part = numbers[5] or (units == MILLION and tokens % 1 * MILLION + 0.5 or tokens % 1 * units)
  local owed = (burst - (tokens - tokens % 1)) * units - (part - part % 1)
  local bound = numbers[6] or burst
  if tag == '' and owed > bound * units then bound = math.ceil(owed / units) end
  if since and since > -9007199254 and since < 9007199254 then
    local micros = since % 1 * MILLION + 0.5
    since = (since - since % 1) * MILLION + micros - micros % 1
    -- Spring refills whole seconds, perhaps the begun one twice.
    if spring then since = since + MILLION end
  else
    since = now
  end
  if owed > 0 and rate > 0 and units > 0 and tick > 0 then
    local full_in = math.ceil(owed / rate)
    state = format('%016d %d %d', (since - since % tick) / tick + full_in, rate, bound)
    if units ~= MILLION or tick ~= 1 then state = format('%s %d %d', state, units, tick) end
    if full_in * rate ~= owed then state = format('%s +%d', state, full_in * rate - owed) end
  end
end
