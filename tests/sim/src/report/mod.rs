//! The report a person looks at: `report.html`, self-contained, `report.json` for programs,
//! and `polling.md` with its picture, which docs/ repeats.
//!
//! No wall time, no machine, no path in it: the same seed writes the same bytes.
mod page;
mod plots;
mod svg;

use std::path::Path;

use crate::{advice::Advice, findings::Findings, table::Row};

pub use page::{Section, page, section};
pub use svg::{Anchor, Plot, Scale, picture};

/// All files into `folder`, which is made if need be.
pub fn write(folder: &Path, rows: &[Row], findings: &Findings, advice: &Advice, seed: u64, runs: usize) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let json = serde_json::to_string_pretty(rows).map_err(std::io::Error::other)?;
    std::fs::write(folder.join("report.json"), json + "\n")?;
    std::fs::write(folder.join("polling.md"), advice.document())?;
    std::fs::write(folder.join("polling.svg"), picture(&plots::frontier(findings, advice)))?;
    std::fs::write(folder.join("report.html"), html(rows, findings, advice, seed, runs))
}

fn html(rows: &[Row], findings: &Findings, advice: &Advice, seed: u64, runs: usize) -> String {
    let agree = rows.iter().filter(|r| r.agrees).count();
    let sections = [
        page::headline(findings),
        section("How long a command waits for its desktop", plots::PICKUP_TEXT, &plots::pickup(findings)),
        section("Five runs at once", plots::BURST_TEXT, &plots::bursts(findings)),
        section("How late a client hears of the end", plots::DELAY_TEXT, &plots::delays(findings)),
        section("What hearing earlier costs", plots::FRONTIER_TEXT, &plots::frontier(findings, advice)),
        section("The whole table", page::TABLE_TEXT, &page::table(rows)),
    ];
    let lead = format!("{agree} of {} published rows agree. Seed {seed}, {runs} runs a row.", rows.len());
    page("The relay, simulated", &lead, &sections)
}
