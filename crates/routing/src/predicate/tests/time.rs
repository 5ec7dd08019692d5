use super::{Predicate, PredicateError, Request};

#[test]
fn time_limits_are_exclusive() {
    let (before, now, after) = ("1800492167788", "1800492167789", "1800492167790");
    let get = Request::get();
    for (from, expected) in [(before, true), (now, false), (after, false)] {
        assert_eq!(get.meets(&Predicate::after(from)), expected, "after {from}");
    }
    for (to, expected) in [(before, false), (now, false), (after, true)] {
        assert_eq!(get.meets(&Predicate::before(to)), expected, "before {to}");
    }
    assert!(get.meets(&Predicate::between(before, after)));
    assert!(!get.meets(&Predicate::between(now, after)));
    assert!(!get.meets(&Predicate::between(before, now)));
}

#[test]
fn times_have_an_offset_or_are_milliseconds() {
    for text in [
        "2027-01-20T17:42:47.788-07:00[America/Denver]",
        "2027-01-20T17:42:47.788-07:00",
        "2027-01-21T00:42:47.788Z",
        "2027-01-21T00:42:47Z[UTC]",
        "2027-01-21T00:42Z",
        "1800492167788",
        "-1",
    ] {
        assert!(Request::get().meets(&Predicate::after(text)), "{text}");
    }
    assert!(!Request::get().meets(&Predicate::after("2027-01-20T17:42:47.789-07:00[America/Denver]")));
    for text in [
        "",
        "tomorrow",
        "2027-01-20T17:42:47",
        "2027-01-20T17:42:47[America/Denver]",
        "2027-01-21T00:42:47Z[",
        "2027-01-21T00:42:47Z[]",
        "2027-13-01T00:00:00Z",
    ] {
        let error = Predicate::after(text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("`{text}` is not a date-time: ")), "{error}");
    }
    let order = PredicateError::Order { from: "2".to_owned(), to: "2".to_owned() };
    assert_eq!(Predicate::between("2", "2").unwrap_err(), order);
}
