-- Adds the entries of `text`, a string of several rules, to the former states `old`.
for name, past, state in string.gmatch(text, '|([%w_-]+)@?(%d*)=([^|]*)') do
  if past == '' then past = till end
  if state ~= '' and tonumber(past) > now then
    local entry, kind = format('|%s@%s=%s', name, past, state), string.match(name, '^[^_]+')
    old[#old + 1] = {algorithm = kind, state = state, past = tonumber(past), entry = entry, present = present[name]}
  end
end
-- Each of the rules `new` takes the first state with its times, or else the first one of its algorithm.
for likeness = 1, 2 do
  for _, rule in ipairs(new) do
    for _, one in ipairs(old) do
      local is_free = not (rule.old or one.new or one.present)
      local is_alike = likeness == 2 or find(string.gsub(one.state, ' %+.*', '') .. ';', rule.times)
      if is_free and is_alike and (one.algorithm == rule.own or one.algorithm == rule.listed) then
        rule.old, one.new = one, rule
      end
    end
  end
end
text = ''
for _, one in ipairs(old) do
  if one.entry and not one.new then text = text .. one.entry end
end
