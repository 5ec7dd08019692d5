//! Every script in `lua/` against its header comment. A new script is tested without further work.

use redis::{Connection, RedisResult, Value};

use crate::support::{RedisServer, run_line};

/// A script, and the arguments of the example in its header.
struct Shown {
    name: String,
    text: String,
    keys: Vec<String>,
    args: Vec<String>,
}

/// Arguments that are not valid whole numbers.
const BAD_NUMBERS: [&str; 7] = ["x", "", "1.5", "nan", "inf", "-1.5", "99999999999999999999"];

fn all() -> Vec<Shown> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lua");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<Shown> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "lua"))
        .map(|path| Shown::new(path.file_name().unwrap().to_str().unwrap(), std::fs::read_to_string(&path).unwrap()))
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(all.len() >= 10, "all scripts are found");
    all
}

impl Shown {
    fn new(name: &str, text: String) -> Self {
        let start = format!("redis-cli --eval lua/{name} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        let line = line.unwrap_or_else(|| panic!("{name} has no line to paste: {start}"));
        let (keys, args) = line.split_once(" , ").unwrap();
        let words = |text: &str| text.split(' ').map(|word| word.trim_matches('\'').to_owned()).collect();
        Self { name: name.to_owned(), keys: words(keys), args: words(args), text }
    }

    /// An entry of the header, such as `Returns`, with its continuation lines.
    fn section(&self, name: &str) -> String {
        let mut lines = self.text.lines().skip_while(|line| !line.starts_with(name));
        let first = lines.next().unwrap_or_else(|| panic!("{}: nothing is said of {name}", self.name));
        lines.take_while(|line| line.starts_with(' ')).fold(first.to_owned(), |all, line| all + line)
    }

    /// Returns the number of returned values: those that the header lists in braces, or one.
    fn returns(&self) -> usize {
        let section = self.section("Returns");
        let Some((_, list)) = section.split_once('{') else { return 1 };
        // Commas within parentheses and in `allowed: …, denied: …` do not separate values.
        let (list, _) = list.split_once('}').unwrap();
        let (mut depth, mut numbers) = (0, 1);
        for byte in list.bytes() {
            match byte {
                b'(' => depth += 1,
                b')' => depth -= 1,
                b',' if depth == 0 => numbers += 1,
                _ => {}
            }
        }
        numbers - usize::from(list.contains("denied:"))
    }

    fn eval(&self, redis: &mut Connection, keys: &[String], args: &[String]) -> RedisResult<Value> {
        redis::cmd("EVAL").arg(&self.text).arg(keys.len()).arg(keys).arg(args).query(redis)
    }

    /// Asserts that the call fails and writes nothing.
    fn refuses(&self, redis: &mut Connection, keys: &[String], args: &[String]) {
        let reply = self.eval(redis, keys, args);
        let error = reply.expect_err(&format!("{} took {keys:?} , {args:?}", self.name)).to_string();
        assert!(
            !error.contains("user_script"),
            "{} failed inside the script on {keys:?} , {args:?}: {error}",
            self.name
        );
        let kept: u64 = redis::cmd("DBSIZE").query(redis).unwrap();
        assert_eq!(kept, 0, "{} wrote for {keys:?} , {args:?}", self.name);
    }
}

/// A script is one file that `redis-cli --eval` runs as it is, so two scripts repeat what they share.
#[test]
fn both_token_buckets_find_the_debt_of_another_rule_by_the_same_lines() {
    let scripts = all();
    let [bucket, gcra] = ["token_bucket.lua", "gcra.lua"].map(|name| {
        let text = &scripts.iter().find(|script| script.name == name).unwrap().text;
        let lines = text.lines().map(str::trim).skip_while(|line| !line.starts_with("local most = "));
        let lines: Vec<_> = lines.take_while(|line| !line.starts_with("if step then owed = math.min(")).collect();
        assert!(lines.len() > 30, "{name}: {lines:?}");
        lines
    });
    assert_eq!(bucket, gcra);
}

#[test]
fn the_example_in_each_header_runs_and_replies_as_described() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    for shown in all() {
        let reply = run_line(&server, &shown.text);
        let numbers: Vec<i64> = reply.iter().filter(|line| !line.is_empty()).map(|n| n.parse().unwrap()).collect();
        assert_eq!((numbers.len(), numbers[0]), (shown.returns(), 1), "{}: {reply:?}", shown.name);
        let names: Vec<String> = redis::cmd("KEYS").arg("*").query(redis).unwrap();
        assert!(!names.is_empty() && names.iter().all(|name| shown.keys.contains(name)), "{names:?}");
        for name in names {
            let expires_in_ms: i64 = redis::cmd("PTTL").arg(&name).query(redis).unwrap();
            let may_stay = shown.text.contains("never without one");
            assert!(expires_in_ms > 0 || may_stay, "{name} of {} lasts {expires_in_ms} ms", shown.name);
        }
        redis::cmd("FLUSHALL").exec(redis).unwrap();
    }
}

#[test]
fn invalid_arguments_are_rejected_and_nothing_is_written() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    for shown in all() {
        for (at, arg) in shown.args.iter().enumerate() {
            let is_number = !arg.is_empty() && arg.bytes().all(|byte| byte.is_ascii_digit());
            let is_word = !arg.is_empty() && arg.bytes().all(|byte| byte.is_ascii_lowercase());
            let bad = match () {
                () if is_number => &BAD_NUMBERS[..],
                () if is_word => &["x", ""],
                // The time, or the bounds of a calendar window.
                () if arg.is_empty() => &["yesterday", "-5", "nan", "inf"],
                () => &[],
            };
            for text in bad {
                let mut args = shown.args.clone();
                (*text).clone_into(&mut args[at]);
                shown.refuses(redis, &shown.keys, &args);
            }
        }
        for few in 0..shown.keys.len() {
            shown.refuses(redis, &shown.keys[..few], &shown.args);
        }
        shown.refuses(redis, &[&shown.keys[..], &["more".to_owned()]].concat(), &shown.args);
        for few in 0..3 {
            shown.refuses(redis, &shown.keys, &shown.args[..few]);
        }
    }
}
