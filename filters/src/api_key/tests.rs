#![allow(clippy::unwrap_used)]

use super::{ApiKey, KeyTable, hash};

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
fn a_single_entry_may_lack_its_hash() {
    assert_eq!(ApiKey::parse(r#"{"id": "a", "plan": "gold"}"#).unwrap().0.plan.as_deref(), Some("gold"));
    assert!(ApiKey::parse(&format!("{{id: a, sha256: {ALICE}}}")).unwrap().1.is_some());
    for text in ["", "[]", "{}", "{id: a", "{id: a}\n---\n{id: b}", "a"] {
        assert!(ApiKey::parse(text).is_err(), "{text}");
    }
}
