use super::{Predicate, Request, texts};

#[test]
fn remote_addr_matches_addresses_in_its_networks() {
    for (source, address, expected) in [
        ("127.0.0.1/24", "127.0.0.9", true),
        ("127.0.0.1", "127.0.0.1", true),
        ("127.0.0.1", "127.0.0.2", false),
        ("10.0.0.0/8", "::ffff:10.1.2.3", true),
        ("::ffff:10.0.0.0/104", "10.1.2.3", true),
        ("::ffff:10.0.0.1", "10.0.0.1", true),
        ("2001:db8::1", "2001:db8::1", true),
        ("2001:db8::1", "2001:db8::2", false),
        ("2001:db8::/32", "2001:db8:ffff::1", true),
        ("0.0.0.0/0", "8.8.8.8", true),
        ("0.0.0.0/0", "2001:db8::1", false),
    ] {
        let request = Request { remote_addr: address.parse().unwrap(), ..Request::get() };
        assert_eq!(request.meets(&Predicate::remote_addr(&texts(&[source]))), expected, "{source} {address}");
    }
    for source in ["", "localhost", "10.0.0.0/33", "10.0.0"] {
        let error = Predicate::remote_addr(&texts(&[source])).unwrap_err().to_string();
        assert!(error.starts_with(&format!("`{source}` is not a network: ")), "{error}");
    }
}

#[test]
fn x_forwarded_remote_addr_counts_entries_from_the_right() {
    let here = Request::get;
    for (lines, index, expected) in [
        (vec!["10.0.0.1"], 1, true),
        (vec!["10.0.0.1, 192.0.2.1"], 1, false),
        (vec!["192.0.2.1, 10.0.0.1"], 1, true),
        (vec!["192.0.2.1,10.0.0.1 "], 1, true),
        (vec!["10.0.0.1, 192.0.2.1"], 2, true),
        (vec!["10.0.0.1, 192.0.2.1"], 9, true),
        (vec!["192.0.2.1, 10.0.0.1, 192.0.2.2"], 3, false),
        (vec!["10.0.0.1:4711"], 1, true),
        (vec!["unknown"], 1, false),
        (vec!["10.0.0.1, "], 1, false),
        // The remote address counts, which is 127.0.0.1.
        (vec![], 1, false),
        (vec![" "], 1, false),
        (vec!["10.0.0.1", "10.0.0.1"], 1, false),
    ] {
        let request = lines.iter().fold(here(), |request, line| request.header("x-forwarded-for", line.as_bytes()));
        let index = index.try_into().unwrap();
        let predicate = Predicate::x_forwarded_remote_addr(&texts(&["10.0.0.0/8"]), index);
        assert_eq!(request.meets(&predicate), expected, "{lines:?} {index}");
    }
    let local = Predicate::x_forwarded_remote_addr(&texts(&["127.0.0.1"]), 1.try_into().unwrap());
    assert!(here().meets(&local));
    assert!(here().header("x-forwarded-for", b"").meets(&local));
    assert!(here().header("x-forwarded-for", b"10.0.0.1").header("x-forwarded-for", b"10.0.0.2").meets(&local));
}
