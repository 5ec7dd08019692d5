//! `tollgate simulate --compare` and `--rate`.

use crate::simulate::{LIMITED, combined_line, simulate, simulate_json, text};

#[test]
fn the_first_configuration_is_compared_with_the_second_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a.yaml"), LIMITED).unwrap();
    std::fs::write(path("b.yaml"), LIMITED.replace("limit: 2", "limit: 4")).unwrap();
    let lines: String = (0..6)
        .map(|minute| combined_line(0, "192.0.2.1", "/a/x").replace(":10:00:", &format!(":10:0{minute}:")))
        .collect();
    std::fs::write(path("a.log"), lines).unwrap();
    let [strict, loose, log, html] = ["a.yaml", "b.yaml", "a.log", "out.html"].map(path);
    assert_eq!(simulate_json(&[text(&strict), text(&log)])["configurations"][0]["denied"], 0);
    for (file, other, denied, changes) in [(&strict, &loose, [4, 2], [2, 0]), (&loose, &strict, [2, 4], [0, 2])] {
        let arguments = [text(file), text(&log), "--compare", text(other), "--rate", "x10", "--report", text(&html)];
        let report = simulate_json(&arguments);
        let found = [0, 1].map(|at: usize| report["configurations"][at]["denied"].as_u64().unwrap());
        assert_eq!(found, denied);
        let comparison = &report["comparison"];
        let rule = &comparison["rules"][0];
        assert_eq!((&rule["route"], &rule["rule"]), (&"a".into(), &"a".into()));
        for part in [comparison, rule] {
            assert_eq!(["newly-denied", "newly-allowed"].map(|name| part[name].as_u64().unwrap()), changes);
        }
        let plain = String::from_utf8(simulate(&arguments).stdout).unwrap();
        let [newly_denied, newly_allowed] = changes;
        for line in [
            format!("difference of {} from {}", text(file), text(other)),
            format!("  newly denied     {newly_denied:>10}"),
            format!("  newly allowed    {newly_allowed:>10}"),
            format!("  a                        a                    {newly_denied:>13} {newly_allowed:>13}"),
        ] {
            assert!(plain.lines().any(|found| found == line), "{line}: {plain}");
        }
        let html = std::fs::read_to_string(&html).unwrap();
        assert!(html.contains("<svg") && html.contains("<td>192.0.2.1</td>") && !html.contains("http"), "{html}");
        assert!(html.contains(&format!("<tr><td>newly denied</td><td>{newly_denied}</td></tr>")), "{html}");
        let row = format!("<tr><td>a</td><td>a</td><td>{newly_denied}</td><td>{newly_allowed}</td></tr>");
        assert!(html.contains(&row), "{html}");
    }
    // Factors have several forms.
    let scaled = simulate_json(&[text(&strict), text(&log), "--rate", "×10"]);
    assert_eq!(scaled["configurations"][0]["denied"], 4);
}

#[test]
fn the_text_tells_the_clients_over_the_limit_and_the_worst_second() {
    let folder = tempfile::tempdir().unwrap();
    let (config, log) = (folder.path().join("new.yaml"), folder.path().join("access.log"));
    std::fs::write(
        &config,
        "routes: [{id: a, uri: 'http://a', predicates: [Path=/**], filters: [{name: RequestRateLimiter, args: {key-resolver: ip, \
         algorithm: fixed-window, limit: 3, window: 1m}}]}]\n",
    )
    .unwrap();
    let line = |client: usize, second: usize| {
        format!("10.0.0.{client} - - [21/Nov/2026:00:00:0{second} +0000] \"GET / HTTP/1.1\" 200 1\n")
    };
    // Fifty clients with one request each. Two of them send five more, of which three are too many: in one second, and in three.
    let mut lines: Vec<String> = (1..=50).map(|client| line(client, 0)).collect();
    lines.extend((0..5).map(|_| line(1, 1)));
    lines.extend((0..5).map(|number| line(2, 2 + number)));
    std::fs::write(&log, lines.concat()).unwrap();
    let output = simulate(&[text(&config), text(&log)]);
    let printed = String::from_utf8(output.stdout).unwrap();
    let words = |begin: &str| {
        let line = printed.lines().find(|line| line.trim_start().starts_with(begin));
        line.unwrap_or_else(|| panic!("{begin}: {printed}")).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(words("ROUTE"), "ROUTE RULE REQUESTS DENIED OBSERVED SHARE PEAK/S");
    let rows = printed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rule =
        rows.filter(|row| row.len() == 7).find(|row| row[..2] == ["a", "60"]).unwrap_or_else(|| panic!("{printed}"));
    assert_eq!((rule[2], rule[6]), ("6", "3"), "{printed}");
    assert_eq!(words("- 2 of"), "- 2 of 50 keys over the limit");
    assert_eq!(words("PEAK/S:"), "PEAK/S: most denied and observed requests of the rule within one second");
}
