//! `tollgate simulate --max-denied`: a gate for CI.

use serde_json::Value;

use crate::simulate::{LIMITED, combined_line, simulate, text};

/// Returns the exit code, the output and the errors.
fn gated(arguments: &[&str]) -> (i32, String, String) {
    let output = simulate(arguments);
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code().unwrap(), out, err)
}

/// Of 200 requests of all routes, route `a` has 4 and denies 2.
fn files() -> (tempfile::TempDir, [String; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let all = "{id: all, uri: 'echo:', predicates: [Path=/**]}]";
    let yaml = LIMITED.strip_suffix(']').unwrap().to_owned() + ", " + all;
    let lines: String =
        (0..200).map(|at| combined_line(at / 4, "192.0.2.1", if at < 4 { "/a/x" } else { "/b" })).collect();
    let paths = [("a.yaml", yaml), ("a.log", lines)].map(|(name, content)| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        text(&path).to_owned()
    });
    (folder, paths)
}

#[test]
fn a_share_of_denied_requests_above_the_bound_ends_with_1() {
    let (_folder, [config, log]) = files();
    for (bounds, code) in [
        (&[][..], 0),
        (&["1%"], 0),
        (&["100%"], 0),
        (&["0.9999%"], 1),
        (&["0.5%"], 1),
        (&["0"], 1),
        (&["1%", "a=50%"], 0),
        (&["1%", "a=49.9%"], 1),
        (&["all=0"], 0),
        (&["all=0", "0"], 1),
    ] {
        let options: Vec<_> = bounds.iter().flat_map(|bound| ["--max-denied", bound]).collect();
        let arguments = [&[config.as_str(), log.as_str()], &*options].concat();
        let (found, out, err) = gated(&arguments);
        assert_eq!((found, err.is_empty()), (code, code == 0), "{bounds:?}: {out}{err}");
        assert_eq!(out.contains("  FAILED: "), code == 1, "{out}");
        let (found, out, _) = gated(&[&*arguments, &["--json"]].concat());
        let gates = serde_json::from_str::<Value>(&out).unwrap()["gates"].as_array().unwrap().clone();
        assert_eq!(found, code);
        assert_eq!(gates.len(), bounds.len());
        assert_eq!(gates.iter().all(|gate| gate["passed"] == true), code == 0, "{gates:?}");
    }
    let (_, out, err) = gated(&[&config, &log, "--max-denied", "0.5%", "--max-denied", "a=49.9%"]);
    let all = "all routes: 2 of 200 requests denied (1 %), more than 0.5 %";
    let of_route = "route a: 2 of 4 requests denied (50 %), more than 49.9 %";
    assert!(out.contains(&format!("  FAILED: {all}\n  FAILED: {of_route}\n")), "{out}");
    assert_eq!(err, format!("tollgate: --max-denied: {all}; {of_route}\n"));
}

#[test]
fn bounds_that_cannot_be_judged_never_pass() {
    let (_folder, [config, log]) = files();
    let (code, _, err) = gated(&[&config, &log, "--max-denied", "orders=1%"]);
    assert_eq!((code, err.as_str()), (2, "tollgate: --max-denied: no route has the id `orders`\n"));
    let (code, _, err) = gated(&[&config, &log, "--max-denied", "0.01"]);
    assert_eq!(code, 2);
    assert!(err.contains("not a share such as 1%, 0.05% or 0"), "{err}");

    // Half of the lines cannot be read, and two of the others have no route.
    let only_a = std::fs::read_to_string(&config).unwrap().replace("Path=/**", "Path=/none");
    let half = (log.clone() + ".half", config.clone() + ".half");
    let lines = std::fs::read_to_string(&log).unwrap();
    let lines: String = lines.lines().take(6).map(|line| format!("{line}\nunreadable\n")).collect();
    std::fs::write(&half.0, lines).unwrap();
    std::fs::write(&half.1, &only_a).unwrap();
    let (code, out, _) = gated(&[&half.1, &half.0, "--max-denied", "50%"]);
    assert_eq!(code, 0, "{out}");
    let undecided = "2 of 4 requests denied (50 %), not more than 50 %; 8 others (66.67 %) could not be decided";
    assert!(out.contains(undecided), "{out}");

    // Another log has no request of the routes.
    let other: String = (0..4).map(|at| combined_line(at, "192.0.2.1", "/other")).collect();
    std::fs::write(&half.0, other).unwrap();
    let (code, _, err) = gated(&[&half.1, &half.0, "--max-denied", "1%"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("no request of the log was decided by a limiter: use a log of the routes"), "{err}");

    // The log has no `X-Key`, and so no verdict of the only rule.
    let yaml = std::fs::read_to_string(&config).unwrap().replace("key-resolver: ip", "key-resolver: 'header:x-key'");
    std::fs::write(&config, yaml).unwrap();
    let (code, _, err) = gated(&[&config, &log, "--max-denied", "a=100%"]);
    assert_eq!(code, 2);
    assert!(err.contains("no request of the log was decided by a limiter"), "{err}");
    let (code, out, _) = gated(&[&config, &log, "--max-denied", "0", "--json"]);
    assert_eq!(code, 2, "the other route has no limiter");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["gates"][0]["decided"], 196);
    assert_eq!(report["configurations"][0]["routes"][0]["unsimulated-rules"], 1);
}
