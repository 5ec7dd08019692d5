//! A script that runs another for many callers.

/// The Lua code that runs `one`, a script of `lua/` or a list of them, for each of many: at one moment, and each on its own, so that
/// an error is only its caller's.
///
/// `KEYS` are everyone's keys; `ARGV[1]` and `ARGV[2]` say how many keys and arguments each has, then the arguments follow.
/// Returns everyone's reply, or error, in the same order. Arguments are not validated: they are ours.
pub(in super::super) fn for_many(one: &str) -> String {
    let one = one.split_once("--]]\n").map_or(one, |(_, code)| code);
    let checked =
        one.split_once("-- [validate]\n").and_then(|(parse, rest)| Some((parse, rest.split_once("-- [time]\n")?.1)));
    let one = checked.map_or_else(|| one.to_owned(), |(parse, rest)| [parse, rest].concat());
    let one = one.replace("call('TIME')", "TIME");
    format!(
        "local TIME, unpack = redis.call('TIME'), unpack
local function one(KEYS, ARGV)
{one}
end
local keys, args, replies = tonumber(ARGV[1]), tonumber(ARGV[2]), {{}}
local key, arg = 1, 3
for n = 1, #KEYS / keys do
  local ran, reply = pcall(one, {{unpack(KEYS, key, key + keys - 1)}}, {{unpack(ARGV, arg, arg + args - 1)}})
  if not ran and type(reply) ~= 'table' then reply = {{err = 'ERR ' .. tostring(reply)}} end
  replies[n] = reply
  key, arg = key + keys, arg + args
end
return replies
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Algorithm;
    use crate::store::redis::script::text;

    #[test]
    fn every_script_asks_for_the_time_once_for_all() {
        for algorithm in Algorithm::ALL {
            let many = for_many(text(algorithm));
            assert_eq!(many.matches("call('TIME')").count(), 1, "{algorithm:?}");
            assert!(!many.contains("-- [validate]") && !many.contains("#KEYS ~="), "{algorithm:?}");
        }
    }
}
