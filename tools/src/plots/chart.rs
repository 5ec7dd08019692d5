//! Panels over one time axis, as SVG for light and dark backgrounds.

use std::fmt::Write as _;

use super::trace::Event;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 24.0;
/// Distance between two dots of a column.
const PITCH: f64 = 7.0;

const STYLE: &str = "svg{--ground:#fff;--ink:#1f2328;--faint:#59636e;--rule:#d1d9e0;--yes:#0f7b4f;--no:#c4302b;\
    --line:#0b62c4;--limit:#9a5b00}\
    @media(prefers-color-scheme:dark){svg{--ground:#0d1117;--ink:#f0f6fc;--faint:#9198a1;--rule:#30363d;--yes:#4ac58a;\
    --no:#ff7b72;--line:#6cb0ff;--limit:#e3a64a}}\
    text{font:12px system-ui,sans-serif;fill:var(--ink)}.f{fill:var(--faint)}.t{font-weight:600;font-size:14px}\
    .e{text-anchor:end}.m{text-anchor:middle}path{fill:none}.g{stroke:var(--rule)}\
    .y{stroke:var(--yes);stroke-width:6;stroke-linecap:round}.n{stroke:var(--no);stroke-width:1.6}\
    .l{stroke:var(--line);stroke-width:2}.b{stroke:var(--limit);stroke-width:1.6;stroke-dasharray:6 4}\
    .w{stroke:var(--faint)}.h{stroke:var(--line);stroke-width:9}.x{stroke:var(--limit);stroke-width:9;opacity:.55}\
    .c{fill:var(--limit)}";

/// Picture that grows downwards.
pub(crate) struct Chart {
    title: String,
    description: String,
    end_ms: u64,
    y: f64,
    body: String,
}

/// Panel of values from 0 to `max`.
pub(crate) struct Panel {
    bottom: f64,
    height: f64,
    max: f64,
}

/// Request: the time with a slot, the time in which only its lease held the slot, or the time of a denial.
#[derive(Default)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) held: Option<(u64, u64)>,
    pub(crate) leased: Option<(u64, u64)>,
    pub(crate) denied_ms: Option<u64>,
}

impl Chart {
    /// Creates an empty picture of the time until `end_ms`. The description is for screen readers.
    pub(crate) fn new(title: &str, description: &str, end_ms: u64) -> Self {
        let mut chart =
            Self { title: title.to_owned(), description: description.to_owned(), end_ms, y: 26.0, body: String::new() };
        chart.text(16.0, 26.0, "t", title);
        chart.y += 10.0;
        chart
    }

    /// Adds the legend; without a text for admitted requests, only that of denied ones.
    pub(crate) fn legend(&mut self, admitted: &str, denied: &str) {
        self.y += 12.0;
        let y = self.y;
        let mut x = 20.0;
        if !admitted.is_empty() {
            self.path("y", &format!("M{x} {:.1}h.01", y - 4.0));
            self.text(x + 9.0, y, "f", admitted);
            x += 20.0 + 6.6 * admitted.len() as f64;
        }
        self.path("n", &cross(x, y - 4.0));
        self.text(x + 9.0, y, "f", denied);
        self.y += 6.0;
    }

    /// Adds requests by time of arrival; simultaneous requests form a column.
    pub(crate) fn requests(&mut self, label: &str, events: &[Event]) {
        let mut columns: Vec<(u64, usize)> = Vec::new();
        let (mut yes, mut no) = (String::new(), String::new());
        let highest = highest_column(events) as f64;
        self.label(label);
        let bottom = self.y + highest * PITCH + 2.0;
        for event in events {
            match columns.last_mut().filter(|(at_ms, _)| *at_ms == event.at_ms) {
                Some((_, height)) => *height += 1,
                None => columns.push((event.at_ms, 1)),
            }
            let height = columns.last().map_or(1, |(_, height)| *height);
            let (x, y) = (self.x(event.at_ms), bottom - PITCH * (height as f64 - 0.5));
            if event.is_allowed {
                let _ = write!(yes, "M{x:.1} {y:.1}h.01");
            } else {
                no.push_str(&cross(x, y));
            }
        }
        self.path("g", &format!("M{LEFT} {:.1}H{:.1}", bottom + 2.0, WIDTH - RIGHT));
        self.path("y", &yes);
        self.path("n", &no);
        self.y = bottom + 10.0;
    }

    /// Adds the start times of the admitted requests below their arrivals.
    pub(crate) fn starts(&mut self, label: &str, events: &[Event]) {
        let (top, bottom) = (self.y - 8.0, self.y + 34.0);
        let (mut waits, mut starts) = (String::new(), String::new());
        for event in events.iter().filter(|event| event.is_allowed) {
            let (came, began) = (self.x(event.at_ms), self.x(event.starts_ms));
            let _ = write!(waits, "M{came:.1} {top:.1}L{began:.1} {bottom:.1}");
            let _ = write!(starts, "M{began:.1} {bottom:.1}h.01");
        }
        self.path("w", &waits);
        self.path("y", &starts);
        self.text(16.0, bottom + 4.0, "", label);
        self.y = bottom + 14.0;
    }

    /// Adds one row of bars per request.
    pub(crate) fn bars(&mut self, rows: &[Row]) {
        for row in rows {
            self.y += 13.0;
            let y = self.y;
            self.text(LEFT - 8.0, y + 4.0, "e f", row.name);
            let bar = |(from, to): (u64, u64)| format!("M{:.1} {y:.1}H{:.1}", self.x(from), self.x(to));
            let (held, leased) = (row.held.map(bar).unwrap_or_default(), row.leased.map(bar).unwrap_or_default());
            let denied = row.denied_ms.map(|at_ms| cross(self.x(at_ms), y)).unwrap_or_default();
            self.path("h", &held);
            self.path("x", &leased);
            self.path("n", &denied);
        }
        self.y += 8.0;
    }

    /// Adds a panel for values up to `max`, with a scale on the left.
    pub(crate) fn panel(&mut self, label: &str, height: f64, max: f64) -> Panel {
        self.label(label);
        let panel = Panel { bottom: self.y + height + 8.0, height, max };
        let half = if max >= 2.0 && max % 2.0 == 0.0 { Some(max / 2.0) } else { None };
        for value in [Some(0.0), half, Some(max)].into_iter().flatten() {
            let y = panel.y(value);
            self.path("g", &format!("M{LEFT} {y:.1}H{:.1}", WIDTH - RIGHT));
            self.text(LEFT - 8.0, y + 4.0, "e f", &format!("{value}"));
        }
        self.y = panel.bottom + 10.0;
        panel
    }

    /// Draws a line through `corners`.
    pub(crate) fn line(&mut self, panel: &Panel, class: &str, corners: &[(u64, f64)]) {
        let mut path = String::new();
        for (at, (at_ms, value)) in corners.iter().enumerate() {
            let _ = write!(path, "{}{:.1} {:.1}", if at == 0 { 'M' } else { 'L' }, self.x(*at_ms), panel.y(*value));
        }
        self.path(class, &path);
    }

    /// Draws a labelled limit.
    pub(crate) fn limit(&mut self, panel: &Panel, value: f64, name: &str) {
        self.line(panel, "b", &[(0, value), (self.end_ms, value)]);
        self.text(LEFT + 4.0, panel.y(value) - 5.0, "c", name);
    }

    /// Draws a note in a panel.
    pub(crate) fn note(&mut self, panel: &Panel, at_ms: u64, value: f64, text: &str) {
        self.text(self.x(at_ms), panel.y(value), "f", text);
    }

    /// Draws vertical lines from `from_y` down, behind all panels so far.
    pub(crate) fn edges(&mut self, from_y: f64, times_ms: impl Iterator<Item = u64>) {
        let to_y = self.y - 10.0;
        let path: String = times_ms.map(|at_ms| format!("M{:.1} {from_y:.1}V{to_y:.1}", self.x(at_ms))).collect();
        self.body.insert_str(0, &format!("<path class=\"g\" d=\"{path}\"/>\n"));
    }

    /// Returns the current height.
    pub(crate) fn depth(&self) -> f64 {
        self.y
    }

    /// Returns the SVG document, with a time axis labelled at each `every` units.
    pub(crate) fn finish(mut self, every: u64, (unit, unit_ms): (&str, u64)) -> String {
        for number in (0..=self.end_ms / unit_ms).step_by(every as usize) {
            let at_ms = number * unit_ms;
            let name = if number == 0 { format!("0 {unit}") } else { number.to_string() };
            self.text(self.x(at_ms), self.y + 6.0, "m f", &name);
        }
        let height = self.y + 18.0;
        let (title, description) = (escape(&self.title), escape(&self.description));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" \
             height=\"{height:.0}\" role=\"img\" aria-labelledby=\"t d\">\n<title id=\"t\">{title}</title>\n\
             <desc id=\"d\">{description}</desc>\n<style>{STYLE}</style>\n\
             <rect width=\"100%\" height=\"100%\" rx=\"8\" style=\"fill:var(--ground)\"/>\n{}</svg>\n",
            self.body
        )
    }

    fn x(&self, at_ms: u64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * at_ms as f64 / self.end_ms as f64
    }

    fn label(&mut self, text: &str) {
        self.y += 14.0;
        self.text(16.0, self.y, "", text);
        self.y += 6.0;
    }

    fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let _ = writeln!(self.body, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{}</text>", escape(text));
    }

    fn path(&mut self, class: &str, d: &str) {
        if !d.is_empty() {
            let _ = writeln!(self.body, "<path class=\"{class}\" d=\"{d}\"/>");
        }
    }
}

impl Panel {
    fn y(&self, value: f64) -> f64 {
        self.bottom - self.height * value / self.max
    }
}

fn highest_column(events: &[Event]) -> usize {
    events.iter().map(|event| events.iter().filter(|other| other.at_ms == event.at_ms).count()).max().unwrap_or(1)
}

fn cross(x: f64, y: f64) -> String {
    format!("M{:.1} {:.1}l5 5m-5 0l5-5", x - 2.5, y - 2.5)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
