//! The page around the plots: one file, no script, follows the reader's light or dark.
use super::svg::escape;
use crate::{
    findings::Findings,
    stats::{Sample, number},
    table::Row,
};

/// A heading, a paragraph, and what they introduce (markup).
pub type Section = String;

pub const TABLE_TEXT: &str = "Published figures, ours from the real relay and the real server on a simulated clock with the doorbell off, whether they agree \
     (within 10 % or three standard errors of the published sample size; deterministic rows exactly), and the same rows with the doorbell and with wait_seconds.";

const STYLE: &str = concat!(include_str!("plot.css"), include_str!("page.css"));

pub fn page(title: &str, lead: &str, sections: &[Section]) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{t}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{t}</h1>\n<p class=\"lead\">{}</p>\n{}</main>\n</body>\n</html>\n",
        escape(lead),
        sections.concat(),
        t = escape(title)
    )
}

pub fn section(title: &str, text: &str, inside: &str) -> Section {
    format!("<section>\n<h2>{}</h2>\n<p>{}</p>\n{inside}</section>\n", escape(title), escape(text))
}

/// Four pairs of figures: as published, and as the product does it now.
pub fn headline(f: &Findings) -> Section {
    let mean_wait = f.waits.each_ref().map(|w| Sample::of_ms(w.wait_ms.iter().copied()).mean());
    let stop = f.cancels.each_ref().map(|c| Sample::of_ms(c.running_ms.iter().copied()).mean());
    let first = f.offline.each_ref().map(|o| o.first_start_ms as f64 / 1000.0);
    let told = [0, 1].map(|i| {
        let watched = &f.polled[i].watched;
        let best = watched.iter().find(|w| if i == 0 { w.strategy.to_string().starts_with("wait 20") } else { w.strategy.hold_s() > 0 });
        best.map_or(f64::NAN, |w| Sample::of_ms(w.delay_ms.iter().copied()).mean())
    });
    let card = |name: &str, [before, now]: [f64; 2]| {
        format!(
            "<div class=\"card\"><div class=\"what\">{}</div><div class=\"now\">{} s</div><div class=\"before\">{} s asking every 20 s</div></div>\n",
            escape(name),
            number(now, if now < 0.1 { 2 } else { 1 }),
            number(before, 1)
        )
    };
    let cards = [
        card("until a desktop starts it, mean", mean_wait),
        card("until a cancelled run has ended, mean", stop),
        card("until the agent knows the end, mean", told),
        card("first start after 600 s offline", first),
    ];
    format!("<div class=\"cards\">\n{}</div>\n", cards.concat())
}

pub fn table(rows: &[Row]) -> String {
    let optional = |text: &Option<String>| text.as_deref().map_or_else(|| "–".to_owned(), escape);
    let lines: String = rows
        .iter()
        .map(|r| {
            format!(
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td class=\"{}\">{}</td><td>{}</td><td>{}</td></tr>\n",
                escape(&r.row),
                escape(&r.published),
                escape(&r.ours),
                if r.agrees { "yes" } else { "no" },
                if r.agrees { "✓ yes" } else { "✗ no" },
                optional(&r.doorbell),
                optional(&r.wait_seconds)
            )
        })
        .collect();
    format!(
        "<div class=\"wide\"><table>\n<thead><tr><th>what</th><th>published</th><th>ours</th><th>agrees</th><th>with the doorbell</th>\
         <th>with wait_seconds</th></tr></thead>\n<tbody>\n{lines}</tbody>\n</table></div>\n"
    )
}
