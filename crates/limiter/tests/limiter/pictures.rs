//! The pictures in `docs/limiters/` show what the limiters decide.

#[path = "../../examples/plot_limiters/plots/mod.rs"]
mod plots;

#[test]
fn the_pictures_are_those_that_the_limiters_draw_now() {
    for (name, picture) in plots::all().unwrap() {
        let kept = std::fs::read_to_string(plots::folder().join(name)).unwrap();
        assert!(kept == picture, "draw {name} anew: cargo run -p tollgate-filters --example plot_limiters");
        assert!(kept.len() < 40 * 1024, "{name} has {} bytes", kept.len());
    }
}
