//! `graph-sim`: the published table again, from the code that ships.
use std::{io::Write as _, path::PathBuf, process::ExitCode, time::Instant};

use clap::{Parser, Subcommand};
use graph_sim::{advice::Advice, experiments, faults, report, rng::Rng, scale, table};

#[derive(Parser)]
#[command(version, about = "The real relay and the real server on a simulated clock. The same seed prints the same bytes; wall time goes to stderr.")]
struct Cli {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    table: TableArgs,
}

#[derive(Subcommand)]
enum What {
    /// Every row of the published table, and the same rows with the doorbell and with wait_seconds (the default).
    Table(TableArgs),
    /// Random interleavings of agents, owners, devices, the server and the network, audited after every step.
    Faults(FaultsArgs),
    /// What a thousand, a hundred thousand and ten million devices ask of a queue: docs/scale.md, on stdout.
    Scale {
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The report of `make bench`, for this machine's costs.
        #[arg(long, default_value_os_t = target("bench/report.json"))]
        bench: PathBuf,
    },
}

#[derive(clap::Args)]
struct FaultsArgs {
    /// How many seeds.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Only these steps of the plan, as a failing seed's replay names them.
    #[arg(long, value_delimiter = ',')]
    keep: Option<Vec<usize>>,
    /// Print what happened even if nothing is wrong.
    #[arg(long)]
    story: bool,
}

#[derive(clap::Args)]
struct TableArgs {
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs for each row; bursts are a quarter of it.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(20..=100_000))]
    runs: u32,
    /// Only this experiment; no report is written.
    #[arg(long, value_parser = experiments::EXPERIMENTS)]
    experiment: Option<String>,
    /// Where report.json and report.html are written.
    #[arg(long, default_value_os_t = target("sim"))]
    report: PathBuf,
}

/// Where builds and reports go: cargo's own folder for them.
fn target(path: &str) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from).join(path)
}

fn main() -> ExitCode {
    let began = Instant::now();
    let cli = Cli::parse();
    let outcome = match cli.what {
        Some(What::Table(args)) => show_table(&args),
        Some(What::Faults(args)) => search_faults(&args, began),
        Some(What::Scale { seed, bench }) => show_scale(seed, &bench),
        None => show_table(&cli.table),
    };
    eprintln!("{:.1} s of wall time", began.elapsed().as_secs_f64());
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("graph-sim: {e}");
            ExitCode::FAILURE
        }
    }
}

/// To stdout. A reader that closed its end early has what it wanted.
fn tell(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        told => told,
    }
}

/// Whether every row that was made agrees.
fn show_table(args: &TableArgs) -> Result<bool, Box<dyn std::error::Error>> {
    let runs = args.runs as usize;
    let findings = experiments::run(args.seed, runs, args.experiment.as_deref())?;
    let rows = table::rows(&findings, &Rng::new(args.seed).stream("bootstrap"), args.experiment.as_deref());
    tell(&table::print(&rows, args.seed, runs))?;
    if args.experiment.is_none() {
        let advice = Advice::of(&findings.polled[0]);
        report::write(&args.report, &rows, &findings, &advice, args.seed, runs)?;
        eprintln!("report: {}", args.report.join("report.html").display());
    }
    Ok(rows.iter().all(|r| r.agrees))
}

/// Whether no fault was found.
fn search_faults(args: &FaultsArgs, began: Instant) -> Result<bool, Box<dyn std::error::Error>> {
    if args.keep.is_some() || args.story {
        let played = faults::play(args.from, args.keep.as_deref());
        let keep = args.keep.clone().unwrap_or_default();
        let is_right = played.faults.is_empty();
        tell(&format!("{}\n", faults::Failing { seed: args.from, keep, played }))?;
        return Ok(is_right);
    }
    let searched = faults::search(args.from, args.seeds, None, &|| began.elapsed());
    for seed in searched.failing.iter().take(1) {
        tell(&format!("{}\n", faults::cut_down(*seed)))?;
    }
    tell(&format!(
        "{} seeds, {} commands, {} executions: {} seeds with a fault {:?}\n",
        searched.seeds,
        searched.commands,
        searched.began,
        searched.failing.len(),
        searched.failing
    ))?;
    Ok(searched.failing.is_empty())
}

fn show_scale(seed: u64, bench: &std::path::Path) -> Result<bool, Box<dyn std::error::Error>> {
    let report = std::fs::read(bench).map_err(|e| format!("{} cannot be read ({e}); `make bench` writes it", bench.display()))?;
    let costs = scale::Costs::of_bench(&serde_json::from_slice(&report)?).ok_or("the bench report lacks a figure; run all of `make bench`")?;
    tell(&scale::document(&scale::asked(seed)?, &costs))?;
    Ok(true)
}
