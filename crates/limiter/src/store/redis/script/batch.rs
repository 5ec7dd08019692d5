//! Script that runs another for many callers.

/// Returns Lua code that runs `script`, of one rule or a list, for each of many callers at one moment. An error affects
/// its own caller only.
///
/// `KEYS` holds the keys of all callers. `ARGV[1]` and `ARGV[2]` are the numbers of keys and arguments of each caller;
/// their arguments follow. The reply is a list of replies or errors in the order of the callers. Arguments are not
/// validated: this crate writes them.
pub(super) fn batched(script: &str) -> String {
    let script = script.split_once("--]]\n").map_or(script, |(_, code)| code);
    let unvalidated =
        script.split_once("-- [validate]\n").and_then(|(parse, rest)| Some((parse, rest.split_once("-- [time]\n")?.1)));
    let script = unvalidated.map_or_else(|| script.to_owned(), |(parse, rest)| [parse, rest].concat());
    let script = script.replace("call('TIME')", "TIME");
    format!(
        "local TIME, unpack = redis.call('TIME'), unpack
local function one(KEYS, ARGV)
{script}
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

    #[test]
    fn every_batched_script_reads_the_time_once() {
        for algorithm in Algorithm::ALL {
            let batched = batched(algorithm.spec().script);
            assert_eq!(batched.matches("call('TIME')").count(), 1, "{algorithm:?}");
            assert!(!batched.contains("-- [validate]") && !batched.contains("#KEYS ~="), "{algorithm:?}");
        }
    }
}
