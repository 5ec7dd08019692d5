#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::{ApiKey, KeyTable, hash, lines};

const ALICE: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const BOB: &str = "81B637D8FCD2C6DA6359E6963113A1170DE795E4B725B84D1E0B4CFD9EC58CE9";

#[test]
fn entries_are_found_by_the_hash_of_their_key() {
    let text = format!(
        "# keys\n- {{id: alice, sha256: {ALICE}, plan: gold, expires: 2027-01-01T00:00:00Z, routes: [orders, till], disabled: false}}\n- id: bob\n  sha256: \"{BOB}\"\n  plan: ~\n  disabled: true\n"
    );
    let table = KeyTable::parse(&text).unwrap();
    let alice = table.find(&hash(b"test")).unwrap();
    assert_eq!((&*alice.id, alice.plan.as_deref(), alice.expires), ("alice", Some("gold"), Some(1_798_761_600)));
    assert!(alice.allows(Some("till")) && !alice.allows(Some("other")) && !alice.allows(None) && !alice.disabled);
    let bob = table.find(&hash(b"bob")).unwrap();
    assert_eq!((&*bob.id, bob.plan, bob.routes, bob.expires, bob.disabled), ("bob", None, None, None, true));
    assert_eq!(table.find(&hash(b"Test")), None, "keys have a case");
    assert!(KeyTable::parse("[]").unwrap().is_empty());
    assert_eq!(KeyTable::parse(&format!(r#"[{{"id": "a", "sha256": "{ALICE}"}}]"#)).unwrap().len(), 1, "JSON");
}

#[test]
fn a_file_with_an_entry_in_each_line_is_read_without_the_yaml_parser() {
    let entry = format!("- {{id: alice, sha256: {ALICE}, plan: null, expires: 2027-01-01T00:00:00Z, routes: [a, b]}}");
    let text = format!("# Müller's keys\r\n{entry}\r\n\n# bob\n- {{id: bob, sha256: {BOB}}}");
    let (table, of_yaml) = (lines::read(&text).unwrap().build().unwrap(), KeyTable::parse_yaml(&text).unwrap());
    assert!(table.iter().eq(of_yaml.iter()) && table.len() == 2, "{table:?}");
    for other in ["id: alice ", "id: 'alice'", "id: a, id: b", "id: a#b", "id: &a b", "id: -a", "id: a: b", "id: ~"] {
        assert!(lines::read(&text.replace("id: alice", other)).is_none(), "{other}");
    }
    for text in
        [format!(" {entry}"), format!("---\n{entry}"), format!("{entry} # a"), format!("{entry}\n  b"), String::new()]
    {
        assert!(lines::read(&text).is_none(), "{text}");
    }
}

proptest! {
    /// The reader of lines accepts no file that the YAML parser refuses or reads in another way.
    #[test]
    fn lines_are_read_as_the_yaml_parser_reads_them(
        entries in prop::collection::vec(
            ("(id|plan|expires|routes|disabled)", "[a-f0-9:./+_,\\[\\]{}#&*!|>'\"%@?~= -]{0,6}|null|true|2027-01-01", "[, #\r\n-]{0,3}|\n[#-] ?"),
            1..4,
        ),
    ) {
        let entry = |(at, (name, value, end)): (usize, &(String, String, String))| {
            let id = if name == "id" { String::new() } else { format!("id: b{at}, ") };
            format!("- {{{id}sha256: {}, {name}: {value}}}{end}\n", super::hex(&hash(&[at as u8])))
        };
        let text: String = entries.iter().enumerate().map(entry).collect();
        if let Some(Ok(table)) = lines::read(&text).map(super::table::Builder::build) {
            let of_yaml = KeyTable::parse_yaml(&text);
            prop_assert!(of_yaml.is_ok_and(|of_yaml| of_yaml.iter().eq(table.iter())), "{}", text);
        }
    }
}

#[test]
fn keys_with_one_id_share_a_plan() {
    let two = |plans: [&str; 2]| {
        KeyTable::parse(&format!("- {{id: a, sha256: {ALICE}{}}}\n- {{id: a, sha256: {BOB}{}}}", plans[0], plans[1]))
    };
    assert_eq!(two([", plan: gold", ", plan: gold"]).unwrap().len(), 2);
    for plans in [[", plan: gold", ", plan: free"], [", plan: gold", ""]] {
        assert!(two(plans).unwrap_err().to_string().contains("`a` have different plans"), "{plans:?}");
    }
}

#[test]
fn an_invalid_file_is_refused_and_never_shows_a_key() {
    let secret = "c2VjcmV0LWtleQ";
    for (text, expected) in [
        ("", "expected a list"),
        ("{}", "expected a list"),
        ("- SECRET", "expected an entry"),
        ("- {id: a, sha256: SECRET}", "64 hex digits, found 14 characters"),
        ("- {id: a, key: SECRET}", "clear text"),
        ("- {id: a, Api-Key: SECRET}", "clear text"),
        ("- {id: a, SECRET: x}", "unknown field"),
        ("- {id: a}", "no `sha256`"),
        ("- {sha256: HASH}", "no `id`"),
        ("- {id: 'a b', sha256: HASH}", "visible ASCII"),
        ("- {id: a, sha256: HASH, expires: soon}", "`expires`"),
        ("- {id: a, sha256: HASH, disabled: maybe}", "`disabled`"),
        ("- {id: a, id: b, sha256: HASH}", "twice"),
        ("- {id: a, sha256: HASH}\n- {id: b, sha256: HASH}", "same `sha256`"),
        ("- {id: a, sha256: {SECRET: b}}", "`sha256` must be a text"),
        ("- {id: a, SECRET: {a: b}}", "unknown field must be a text"),
        ("- {id: a, SECRET: [[a]]}", "unknown field must be a list"),
        ("- {id: a, sha256: [SECRET", "not valid YAML"),
        ("- {id: a, sha256: *SECRET}", "not valid YAML"),
        ("- &k {id: a, sha256: HASH}\n- *k", "expected an entry"),
        ("[]\n---\n[]", "one list"),
    ] {
        let error = KeyTable::parse(&text.replace("SECRET", secret).replace("HASH", ALICE)).unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains(secret), "{text}: {error}");
    }
    let many = KeyTable::parse(&"- {id: a}\n".repeat(9)).unwrap_err();
    assert_eq!((many.errors.len(), many.more), (5, 4));
    assert_eq!(many.errors[4].line, 5);
}

#[test]
fn an_entry_with_many_unknown_fields_is_refused_after_the_first() {
    let fields: String = (0..100_000).map(|field| format!(", f{field}: 1")).collect();
    // Names are compared with each other up to the first error: an assertion of the reader bounds their number.
    assert!(KeyTable::parse(&format!("- {{id: a{fields}}}")).unwrap_err().to_string().contains("unknown field"));
}

#[test]
fn a_single_entry_may_lack_its_hash() {
    assert_eq!(ApiKey::parse(r#"{"id": "a", "plan": "gold"}"#).unwrap().0.plan.as_deref(), Some("gold"));
    assert!(ApiKey::parse(&format!("{{id: a, sha256: {ALICE}}}")).unwrap().1.is_some());
    for text in ["", "[]", "{}", "{id: a", "{id: a}\n---\n{id: b}", "a"] {
        assert!(ApiKey::parse(text).is_err(), "{text}");
    }
}
