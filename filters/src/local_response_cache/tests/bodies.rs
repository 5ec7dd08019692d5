use super::*;

#[tokio::test]
async fn incomplete_bodies_and_bodies_with_trailers_are_not_stored() {
    type Body = fn() -> Vec<Result<Frame<Bytes>, &'static str>>;
    let bodies: [Body; 3] = [
        || vec![Ok(Frame::data("bo".into())), Err("broken")],
        || vec![Ok(Frame::data("body".into())), Ok(Frame::trailers(HeaderMap::new()))],
        || vec![Ok(Frame::data("bo".into()))],
    ];
    for (at, body) in bodies.into_iter().enumerate() {
        let length = if at == 2 { "4" } else { "" };
        let cached = Cached::new(move |_| {
            Response::builder().header("content-length", length).body(Pieces(body().into())).unwrap()
        });
        cached.get(&[]).await;
        cached.get(&[]).await;
        assert_eq!(cached.upstream_requests(), 2, "{at}");
    }
    let cached = Cached::new(|_| response(&[], "body"));
    drop(cached.send("GET", "/a", &[]).await);
    cached.get(&[]).await;
    assert_eq!(cached.upstream_requests(), 2, "after a client that disconnected");
    cached.get(&[]).await;
    assert_eq!(cached.upstream_requests(), 2);
}
