//! Strings that several rules share.

use std::fmt::Write as _;

use super::ListedRule;

/// Rules that share one string: the index of its key, and the indices of the rules.
pub(super) type Pack = (usize, Vec<usize>);

/// Packed rules by key, in order.
pub(super) fn packs(rules: &[ListedRule]) -> Vec<Pack> {
    let mut packs: Vec<Pack> = Vec::new();
    for (at, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.packed_as.is_some()) {
        match packs.iter_mut().find(|(key, _)| *key == rule.key) {
            Some((_, members)) => members.push(at),
            None => packs.push((rule.key, vec![at])),
        }
    }
    packs
}

fn name(rules: &[ListedRule], at: usize) -> &str {
    rules[at].packed_as.as_deref().unwrap_or_default()
}

/// Writes the read of a pack: with one pattern if it holds just these rules in this order, otherwise rule by rule.
pub(super) fn read_pack(script: &mut String, (key, members): &Pack, rules: &[ListedRule]) {
    let states: Vec<String> = members.iter().map(|at| format!("was{at}")).collect();
    let written: Vec<String> = members.iter().map(|at| format!("is{at}")).collect();
    let pattern: Vec<String> =
        members.iter().map(|at| format!("|{}=([^|]*)", name(rules, *at).replace('-', "%-"))).collect();
    let _ = write!(
        script,
        "local {states}\nlocal {written}\nlocal till{key}, others{key} = 0, ''\n\
         do\nlocal pack = call('GET', KEYS[{n}])\n\
         if pack then\n  local _, till\n  _, _, till, {states} = find(pack, '^(%d+){pattern}$')\n\
         \x20 if not till then\n    till = string.match(pack, '^(%d+)|') or '0'\n\
         \x20   for rule, past, state in string.gmatch(pack, '|([%w_-]+)@?(%d*)=([^|]*)') do\n      if past == '' then past = till end\n\
         \x20     if false then\n",
        states = states.join(", "),
        written = written.join(", "),
        n = key + 1,
        pattern = pattern.concat(),
    );
    for at in members {
        let _ = writeln!(script, "      elseif rule == '{}' then was{at} = state", name(rules, *at));
    }
    let _ = write!(
        script,
        "      elseif state ~= '' and tonumber(past) > now then others{key} = others{key} .. '|' .. rule .. '@' .. past .. '=' .. state end\n\
         \x20   end\n  end\n  till{key} = tonumber(till) or 0\n"
    );
    for at in members {
        let _ = writeln!(script, "  if was{at} == '' then was{at} = nil end");
    }
    *script += "end\nend\n";
}

/// Writes the write of a pack, which runs if any of its rules changed.
pub(super) fn write_pack(script: &mut String, (key, members): &Pack, rules: &[ListedRule]) {
    let any: Vec<String> = members.iter().map(|at| format!("is{at}")).collect();
    let format: Vec<String> = members.iter().map(|at| format!("|{}=%s", name(rules, *at))).collect();
    let values: Vec<String> = members.iter().map(|at| format!("is{at} or was{at} or ''")).collect();
    let _ = write!(
        script,
        "if {any} then\n  if till{key} > MOST then till{key} = MOST end\n\
         \x20 local text = format('%d{format}%s', till{key}, {values}, others{key})\n\
         \x20 call('SET', KEYS[{n}], text, 'PX', format('%d', (till{key} - now) / 1000 + 1))\nend\n",
        any = any.join(" or "),
        format = format.concat(),
        values = values.join(", "),
        n = key + 1,
    );
}
