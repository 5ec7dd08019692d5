//! For any sequence of requests, changes and time, clients get neither responses of other clients nor outdated ones.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A client sends a request.
    Get { path: u8, user: u8, language: u8, is_conditional: bool },
    /// A client changes a resource.
    Change { path: u8 },
    /// The resource changes without a request through the gateway.
    ChangeElsewhere { path: u8 },
    /// Time passes, in seconds.
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..2_u8, 0..2_u8, 0..2_u8, any::<bool>())
            .prop_map(|(path, user, language, is_conditional)| Step::Get { path, user, language, is_conditional }),
        1 => (0..2_u8).prop_map(|path| Step::Change { path }),
        1 => (0..2_u8).prop_map(|path| Step::ChangeElsewhere { path }),
        2 => (1..80_u64).prop_map(Step::Pass),
    ]
}

/// The current version of each resource, and the time of its last change.
type Versions = Arc<Mutex<[(u32, Instant); 2]>>;

const FRESH: Duration = Duration::from_secs(100);

async fn run(steps: Vec<Step>, bytes: u64, tags: bool) -> Result<(), TestCaseError> {
    let versions: Versions = Arc::new(Mutex::new([(0, Instant::now()); 2]));
    let known = Arc::clone(&versions);
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
            Step::ChangeElsewhere { path } | Step::Change { path } => {
                let entry = &mut versions.lock().unwrap()[usize::from(path)];
                *entry = (entry.0 + 1, Instant::now());
            }
            Step::Get { .. } => {}
        }
        if let Step::Change { path } = step {
            cached.send("PUT", &format!("/{path}"), &[]).await;
            // The gateway has seen the change: from now on the old version must not be served.
            versions.lock().unwrap()[usize::from(path)].1 = Instant::now() - FRESH;
        }
        let Step::Get { path, user, language, is_conditional } = step else { continue };
        let (user, language) = (format!("u{user}"), format!("l{language}"));
        let (version, since) = versions.lock().unwrap()[usize::from(path)];
        let tag = format!("\"{version}{user}{language}\"");
        let mut headers = vec![("cookie", user.as_str()), ("accept-language", language.as_str())];
        if is_conditional {
            headers.push(("if-none-match", &tag));
        }
        let (head, body) = cached.send("GET", &format!("/{path}"), &headers).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        if head.status == 304 {
            prop_assert!(tags && is_conditional && body.is_empty());
            continue;
        }
        let text = String::from_utf8(body.to_vec()).unwrap();
        let (of, found) = text.rsplit_once(' ').unwrap();
        prop_assert_eq!(of, format!("{path} {user} {language}"));
        let is_current = found == version.to_string();
        prop_assert!(is_current || Instant::now() - since < FRESH, "{text} but the version is {version}");
        prop_assert!(cached.cache.bytes() <= bytes);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn clients_get_neither_others_nor_outdated_responses(
        steps in vec(step(), 1..80),
        is_small: bool,
        tags: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(run(steps, if is_small { 1_500 } else { 1 << 20 }, tags))?;
    }
}
