//! Just enough SVG for plots: a frame with axes, and marks placed by value. Colours are the page's CSS variables.
use std::fmt::Write as _;

#[derive(Debug, Clone, Copy)]
pub enum Scale {
    Linear { from: f64, to: f64 },
    Log { from: f64, to: f64 },
}

impl Scale {
    /// 0 at `from`, 1 at `to`.
    pub fn at(self, value: f64) -> f64 {
        match self {
            Self::Linear { from, to } => (value - from) / (to - from),
            Self::Log { from, to } => (value.max(from * 1e-3) / from).ln() / (to / from).ln(),
        }
    }
}

/// A drawing with a margin around its plotting area.
pub struct Plot {
    width: f64,
    height: f64,
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
    x: Scale,
    y: Scale,
    out: String,
}

fn put(out: &mut String, element: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(element); // writing to a String cannot fail
    out.push('\n');
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A drawing as a file of its own, for documents: on a ground, in the reader's light or dark.
pub fn picture(drawing: &str) -> String {
    let style = format!("<style>\n{}svg {{ background: var(--base); }}\n</style>\n", include_str!("plot.css"));
    match drawing.split_once('\n') {
        Some((open, rest)) => format!("{}\n{style}{rest}", open.replacen("<svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"", 1)),
        None => String::new(),
    }
}

/// Which side of a point its text stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    const fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

impl Plot {
    /// `margin` is left, top, right, bottom, in the units of the 760-wide page.
    pub fn new(height: f64, margin: [f64; 4], x: Scale, y: Scale) -> Self {
        let [left, top, right, bottom] = margin;
        Self { width: 760.0, height, left, top, right, bottom, x, y, out: String::new() }
    }

    fn px(&self, x: f64) -> f64 {
        self.left + self.x.at(x) * (self.width - self.left - self.right)
    }
    fn py(&self, y: f64) -> f64 {
        self.height - self.bottom - self.y.at(y) * (self.height - self.top - self.bottom)
    }

    pub fn x_axis(&mut self, ticks: &[(f64, &str)], name: &str) {
        let base = self.height - self.bottom;
        for (value, label) in ticks {
            let x = self.px(*value);
            put(&mut self.out, format_args!(r#"<line class="grid" x1="{x:.1}" x2="{x:.1}" y1="{:.1}" y2="{base:.1}"/>"#, self.top));
            put(&mut self.out, format_args!(r#"<text class="tick" x="{x:.1}" y="{:.1}" text-anchor="middle">{}</text>"#, base + 16.0, escape(label)));
        }
        put(
            &mut self.out,
            format_args!(r#"<line class="axis" x1="{:.1}" x2="{:.1}" y1="{base:.1}" y2="{base:.1}"/>"#, self.left, self.width - self.right),
        );
        put(
            &mut self.out,
            format_args!(r#"<text class="name" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#, self.width - self.right, base + 34.0, escape(name)),
        );
    }

    pub fn y_axis(&mut self, ticks: &[(f64, &str)], name: &str) {
        for (value, label) in ticks {
            let y = self.py(*value);
            put(
                &mut self.out,
                format_args!(r#"<line class="grid" x1="{:.1}" x2="{:.1}" y1="{y:.1}" y2="{y:.1}"/>"#, self.left, self.width - self.right),
            );
            put(
                &mut self.out,
                format_args!(r#"<text class="tick" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#, self.left - 8.0, y + 4.0, escape(label)),
            );
        }
        put(&mut self.out, format_args!(r#"<text class="name" x="{:.1}" y="{:.1}">{}</text>"#, self.left, self.top - 10.0, escape(name)));
    }

    /// A bar from `x0` to `x1` and from `y0` up to `y1`.
    pub fn bar(&mut self, x: [f64; 2], y: [f64; 2], class: &str, title: &str) {
        let (x0, x1, y0, y1) = (self.px(x[0]), self.px(x[1]), self.py(y[0]), self.py(y[1]));
        let width = (x1 - x0).max(0.75);
        put(
            &mut self.out,
            format_args!(
                r#"<rect class="{class}" x="{x0:.1}" y="{y1:.1}" width="{width:.1}" height="{:.1}" rx="1.5"><title>{}</title></rect>"#,
                (y0 - y1).max(0.0),
                escape(title)
            ),
        );
    }

    pub fn dot(&mut self, x: f64, y: f64, radius: f64, class: &str, title: &str) {
        let (x, y) = (self.px(x), self.py(y));
        put(&mut self.out, format_args!(r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="{radius}"><title>{}</title></circle>"#, escape(title)));
    }

    pub fn line(&mut self, points: &[(f64, f64)], class: &str) {
        let path = points.iter().map(|(x, y)| format!("{:.1},{:.1}", self.px(*x), self.py(*y))).collect::<Vec<_>>().join(" ");
        put(&mut self.out, format_args!(r#"<polyline class="{class}" points="{path}"/>"#));
    }

    /// A closed shape between the points and the height `floor`.
    pub fn area(&mut self, points: &[(f64, f64)], floor: f64, class: &str) {
        let mut all: Vec<(f64, f64)> = points.to_vec();
        if let (Some(first), Some(last)) = (points.first(), points.last()) {
            all.push((last.0, floor));
            all.insert(0, (first.0, floor));
        }
        let path = all.iter().map(|(x, y)| format!("{:.1},{:.1}", self.px(*x), self.py(*y))).collect::<Vec<_>>().join(" ");
        put(&mut self.out, format_args!(r#"<polygon class="{class}" points="{path}"/>"#));
    }

    /// Text at a value, moved by `shift` page units.
    pub fn label(&mut self, at: (f64, f64), shift: (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let (x, y) = (self.px(at.0) + shift.0, self.py(at.1) + shift.1);
        put(&mut self.out, format_args!(r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{}">{}</text>"#, anchor.word(), escape(text)));
    }

    /// The drawing, with the sentence that says what it shows to whoever cannot see it.
    pub fn finish(self, says: &str) -> String {
        format!("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n", self.width, self.height, escape(says), self.out)
    }
}
