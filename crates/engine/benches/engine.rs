//! How fast scripts start, call and fan out, on this machine: `cargo bench -p engine`. Prints one line per figure; no threshold here
//! decides anything.
use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use domain::{ExecutionId, RawJson, Slug, Timestamp, wire::event::FleetWhat};
use engine::{
    AgentAnswer, AgentCall, BoxFuture, CallCode, CallError, CalledGraph, ChildVm, Fleet, FleetHost, OwnerQuestion, Script, Seat, Settings, ToolCall,
    run_fleet_script,
};
use tokio::sync::Notify;

#[derive(Default)]
struct Host {
    events: AtomicU64,
    called: Notify,
}

impl FleetHost for Host {
    fn event(&self, _: FleetWhat) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }
    fn agent<'a>(&'a self, _: &'a Fleet, call: AgentCall, _: Seat) -> BoxFuture<'a, Result<AgentAnswer, CallError>> {
        let value = RawJson::of(&call.prompt.into());
        Box::pin(std::future::ready(Ok(AgentAnswer { value, tokens: 0, cost: None, replayed: false })))
    }
    fn tool<'a>(&'a self, _: &'a Fleet, call: ToolCall, _: Seat) -> BoxFuture<'a, Result<RawJson, CallError>> {
        self.called.notify_one();
        Box::pin(std::future::ready(Ok(call.input)))
    }
    fn ask<'a>(&'a self, _: &'a Fleet, _: OwnerQuestion) -> BoxFuture<'a, Result<RawJson, CallError>> {
        Box::pin(std::future::ready(Err(CallError::new(CallCode::Unanswered, "nobody is asked"))))
    }
    fn graph(&self, _: &Slug) -> Result<CalledGraph, CallError> {
        Err(CallError::new(CallCode::NoGraph, "there is none"))
    }
}

/// Runs a script; returns the time to its first tool call (if it makes one), to its end, and its number of events.
async fn run(vm: &ChildVm, source: &str) -> (Option<Duration>, Duration, u64) {
    let host = Arc::new(Host::default());
    let (Ok(slug), Ok(id)) = (Slug::parse("bench"), ExecutionId::parse("bench")) else { return (None, Duration::ZERO, 0) };
    let fleet = Fleet::new(id, Settings::new(slug.clone(), 1, Timestamp::from_ms(0)), Arc::clone(&host) as Arc<dyn FleetHost>);
    let script = Script::new(slug, source);
    let began = Instant::now();
    let first = async {
        host.called.notified().await;
        began.elapsed()
    };
    let (args, mut to_first) = (RawJson::empty_object(), None);
    let whole = run_fleet_script(&script, &args, fleet, vm);
    tokio::pin!(first, whole);
    loop {
        tokio::select! {
            biased;
            at = &mut first, if to_first.is_none() => to_first = Some(at),
            outcome = &mut whole => {
                if !matches!(outcome, domain::Outcome::Completed { .. }) {
                    println!("failed: {outcome:?}");
                }
                return (to_first, began.elapsed(), host.events.load(Ordering::Relaxed));
            }
        }
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The same program in Node, where there is one: without a host, so only what the language itself does.
fn in_node(source: &str) -> Option<Duration> {
    let program =
        format!("const t = process.hrtime.bigint(); (async () => {{ {source} }})().then(() => console.log(Number(process.hrtime.bigint() - t)))");
    let output = Command::new("node").args(["-e", &program]).output().ok()?;
    let nanos: f64 = String::from_utf8(output.stdout).ok()?.trim().parse().ok()?;
    Some(Duration::from_secs_f64(nanos / 1e9))
}

#[tokio::main]
async fn main() {
    const ROUNDS: usize = 40;
    let program = env!("CARGO_BIN_EXE_graph-vm");
    let first_call = "await tool('echo', {})";

    let mut cold = Vec::new();
    for _ in 0..ROUNDS {
        // A fresh one has no spare process.
        cold.extend(run(&ChildVm::new(program.into()), first_call).await.0);
    }
    println!("start to first host call, cold      {:>10.2?} median of {}", median(cold.clone()), cold.len());

    let vm = ChildVm::new(program.into());
    let mut warm = Vec::new();
    for _ in 0..ROUNDS {
        warm.extend(run(&vm, first_call).await.0);
        // The spare of the next round is started beside; give it its time, as an owner would.
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    println!("start to first host call, spare     {:>10.2?} median of {}", median(warm.clone()), warm.len());

    let (_, took, _) = run(&vm, "for (let i = 0; i < 5000; i++) await tool('echo', {i})").await;
    println!("one host call after another         {:>10.2?} each", took / 5000);

    let (_, took, events) = run(&vm, "await parallel(Array.from({length: 500}, (_, i) => () => agent('say ' + i)))").await;
    println!("parallel(500) of trivial agents     {took:>10.2?}, {events} events");

    let (_, took, events) = run(&vm, "for (let i = 0; i < 9000; i++) log('line ' + i)").await;
    println!("events                              {:>10.0} a second", events as f64 / took.as_secs_f64());

    for (what, source) in [
        ("a million rounds of a loop", "let n = 0; for (let i = 0; i < 1e6; i++) n += i; return n"),
        (
            "100,000 map, filter, sort, reduce",
            "return Array.from({length: 1e5}, (_, i) => (i * 7919) % 100003).map(x => x * 2).filter(x => x % 3).sort((a, b) => a - b).reduce((a, b) => a + b, 0)",
        ),
        (
            "JSON there and back, 500 KB",
            "const s = JSON.stringify(Array.from({length: 1e4}, (_, i) => ({i, name: 'item ' + i, tags: ['a', 'b']}))); return JSON.parse(s).length",
        ),
    ] {
        let (_, took, _) = run(&vm, source).await;
        let node = in_node(source).map_or("no node here".to_owned(), |t| format!("{t:.2?} in Node"));
        println!("{what:<36}{took:>10.2?}, {node}");
    }
}
