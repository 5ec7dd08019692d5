//! Every script in `lua/`, by what its first comment says of it: a new one is put to the test by being there.

use redis::{Connection, RedisResult, Value};

use crate::support::{RedisServer, run_line};

/// A script and the operands of the line that shows how to run it.
struct Shown {
    name: String,
    text: String,
    keys: Vec<String>,
    args: Vec<String>,
}

/// What is no whole number that anything could be counted with.
const BAD_NUMBERS: [&str; 7] = ["x", "", "1.5", "nan", "inf", "-1.5", "99999999999999999999"];

fn all() -> Vec<Shown> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lua");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<Shown> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "lua"))
        .map(|path| Shown::new(path.file_name().unwrap().to_str().unwrap(), std::fs::read_to_string(&path).unwrap()))
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(all.len() >= 10, "they are all here");
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

    /// A line of the comment, such as that of `Returns`, with those that go on behind it.
    fn section(&self, name: &str) -> String {
        let mut lines = self.text.lines().skip_while(|line| !line.starts_with(name));
        let first = lines.next().unwrap_or_else(|| panic!("{}: nothing is said of {name}", self.name));
        lines.take_while(|line| line.starts_with(' ')).fold(first.to_owned(), |all, line| all + line)
    }

    /// How many numbers it returns: those that the comment names in braces, or one.
    fn returns(&self) -> usize {
        let section = self.section("Returns");
        let Some((_, list)) = section.split_once('{') else { return 1 };
        // Commas within parentheses, and `allowed: …, denied: …`, are not between numbers.
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

    /// Refused, and nothing is there.
    fn refuses(&self, redis: &mut Connection, keys: &[String], args: &[String]) {
        let reply = self.eval(redis, keys, args);
        let error = reply.expect_err(&format!("{} took {keys:?} , {args:?}", self.name)).to_string();
        assert!(!error.contains("user_script"), "{} stumbled over {keys:?} , {args:?}: {error}", self.name);
        let kept: u64 = redis::cmd("DBSIZE").query(redis).unwrap();
        assert_eq!(kept, 0, "{} wrote for {keys:?} , {args:?}", self.name);
    }
}

#[test]
fn the_line_in_each_comment_runs_and_replies_what_the_comment_says() {
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
fn bad_operands_are_refused_and_nothing_is_written() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    for shown in all() {
        for (at, arg) in shown.args.iter().enumerate() {
            let is_number = !arg.is_empty() && arg.bytes().all(|byte| byte.is_ascii_digit());
            let is_word = !arg.is_empty() && arg.bytes().all(|byte| byte.is_ascii_lowercase());
            let bad = match () {
                () if is_number => &BAD_NUMBERS[..],
                () if is_word => &["x", ""],
                // The time, or a calendar's.
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
