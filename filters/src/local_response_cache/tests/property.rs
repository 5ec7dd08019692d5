//! Whatever clients, writers and time do: nobody gets what is another's, or what is not true any more.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A client asks.
    Get { path: u8, user: u8, language: u8, checks: bool },
    /// A client changes a resource.
    Change { path: u8 },
    /// It changes behind the gateway's back.
    Elsewhere { path: u8 },
    /// Seconds pass.
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..2_u8, 0..2_u8, 0..2_u8, any::<bool>())
            .prop_map(|(path, user, language, checks)| Step::Get { path, user, language, checks }),
        1 => (0..2_u8).prop_map(|path| Step::Change { path }),
        1 => (0..2_u8).prop_map(|path| Step::Elsewhere { path }),
        2 => (1..80_u64).prop_map(Step::Pass),
    ]
}

/// What is true of each resource: its version, and since when.
type Truth = Arc<Mutex<[(u32, Instant); 2]>>;

const FRESH: Duration = Duration::from_secs(100);

async fn run(steps: Vec<Step>, bytes: u64, tags: bool) -> Result<(), TestCaseError> {
    let truth: Truth = Arc::new(Mutex::new([(0, Instant::now()); 2]));
    let known = Arc::clone(&truth);
    let cached = Cached::with(bytes, Settings::new(Duration::from_secs(300)), move |request| {
        let path = request.uri().path().trim_start_matches('/');
        let field = |name: &str| request.headers().get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
        let (version, _) = known.lock().unwrap()[path.parse::<usize>().unwrap()];
        let tag = format!("\"{version}{}{}\"", field("cookie"), field("accept-language"));
        let response = Response::builder().header("vary", "accept-language").header("cache-control", "max-age=100");
        let response = if tags { response.header("etag", &tag) } else { response };
        if tags && field("if-none-match") == tag {
            return response.status(304).body(Pieces::from(Bytes::new())).unwrap();
        }
        let body = format!("{path} {} {} {version}", field("cookie"), field("accept-language"));
        response.body(Bytes::from(body).into()).unwrap()
    });
    for step in steps {
        match step {
            Step::Pass(seconds) => tokio::time::advance(Duration::from_secs(seconds)).await,
            Step::Elsewhere { path } | Step::Change { path } => {
                let entry = &mut truth.lock().unwrap()[usize::from(path)];
                *entry = (entry.0 + 1, Instant::now());
            }
            Step::Get { .. } => {}
        }
        if let Step::Change { path } = step {
            cached.begin("PUT", &format!("/{path}"), &[]).await;
            // From here on the old one is not only old but known to be.
            truth.lock().unwrap()[usize::from(path)].1 = Instant::now() - FRESH;
        }
        let Step::Get { path, user, language, checks } = step else { continue };
        let (user, language) = (format!("u{user}"), format!("l{language}"));
        let (version, since) = truth.lock().unwrap()[usize::from(path)];
        let tag = format!("\"{version}{user}{language}\"");
        let mut headers = vec![("cookie", user.as_str()), ("accept-language", language.as_str())];
        if checks {
            headers.push(("if-none-match", &tag));
        }
        let (head, body) = cached.begin("GET", &format!("/{path}"), &headers).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        if head.status == 304 {
            prop_assert!(tags && checks && body.is_empty());
            continue;
        }
        let text = String::from_utf8(body.to_vec()).unwrap();
        let (of, found) = text.rsplit_once(' ').unwrap();
        prop_assert_eq!(of, format!("{path} {user} {language}"));
        let is_current = found == version.to_string();
        prop_assert!(is_current || Instant::now() - since < FRESH, "{text} where {version} is true");
        prop_assert!(cached.cache.bytes() <= bytes);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn nobody_gets_what_is_anothers_or_not_true_any_more(
        steps in vec(step(), 1..80),
        is_small: bool,
        tags: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(run(steps, if is_small { 1_500 } else { 1 << 20 }, tags))?;
    }
}
