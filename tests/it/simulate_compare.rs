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
