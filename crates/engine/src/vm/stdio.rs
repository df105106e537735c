//! The inside of the `graph-vm` process: frames over stdio, the script on its own thread, a watchdog beside it.
use std::{
    io::{BufReader, Stdout},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    time::{Duration, Instant},
};

use super::{
    frames,
    machine::{self, Gone, Link, Pulse, Purpose},
    wire::{FromVm, ToVm},
};

/// Exit codes of the script process that say why it is gone.
pub const EXIT_OUT_OF_MEMORY: i32 = 77;
/// The one argument of the process, where it is started only to look for syntax errors.
pub const LINT: &str = "lint";
/// It was busy for too long without coming back to its host.
pub(super) const EXIT_BUSY: i32 = 78;

/// Bytes the process has allocated, counted by its allocator; 0 in a process without that one.
pub static HEAP_USED: AtomicUsize = AtomicUsize::new(0);

const WATCH_EVERY: Duration = Duration::from_millis(50);
/// So long the script's thread has to say where the script stood, before the process ends without that.
const LAST_WORDS_WITHIN: Duration = Duration::from_secs(1);

/// Serves one order from standard input. The process ends when standard input does: the parent has let go of it, or is gone.
pub fn serve_stdio(only_lints: bool) -> ! {
    let purpose = if only_lints { Purpose::Lint } else { Purpose::Run };
    let pulse = Arc::new(Pulse::default());
    let (orders, inbox) = channel();
    let link = Stdio { inbox, out: std::io::stdout() };
    let started = machine::spawn(purpose, link, Arc::clone(&pulse)).is_ok();
    let watched = std::thread::Builder::new().name("watchdog".into()).spawn(move || watch(&pulse)).is_ok();
    if started && watched {
        read_orders(&orders);
    }
    std::process::exit(i32::from(!(started && watched)))
}

fn read_orders(orders: &Sender<ToVm>) {
    let mut stdin = BufReader::new(std::io::stdin().lock());
    let mut is_first = true;
    while let Ok(Some(message)) = frames::read(&mut stdin) {
        // Before the order is passed on, so before anything of it is done.
        if is_first && frames::write(&mut std::io::stdout(), &FromVm::Taken).is_err() {
            return;
        }
        is_first = false;
        if orders.send(message).is_err() {
            return;
        }
    }
}

/// Ends the script, and then the process, when it works too long without coming back. The wall counts, not the processor: the owner waits
/// either way.
fn watch(pulse: &Pulse) {
    let (mut seen, mut since) = (pulse.turns.load(Ordering::SeqCst), Instant::now());
    loop {
        std::thread::sleep(WATCH_EVERY);
        let now = pulse.turns.load(Ordering::SeqCst);
        let is_waiting = now.is_multiple_of(2);
        if now != seen || is_waiting {
            (seen, since) = (now, Instant::now());
            pulse.tired.store(false, Ordering::SeqCst);
            continue;
        }
        let (worked, patience) = (since.elapsed(), Duration::from_millis(pulse.busy_ms.load(Ordering::SeqCst)));
        if worked > patience + LAST_WORDS_WITHIN {
            std::process::exit(EXIT_BUSY);
        }
        if worked > patience {
            pulse.tired.store(true, Ordering::SeqCst);
        }
    }
}

struct Stdio {
    inbox: Receiver<ToVm>,
    out: Stdout,
}

impl Link for Stdio {
    fn send(&mut self, message: FromVm) -> Result<(), Gone> {
        // A parent at the other end of a pipe sees by itself that nothing comes.
        if message == FromVm::Idle {
            return Ok(());
        }
        let is_last = matches!(message, FromVm::End(_) | FromVm::Linted(_));
        let sent = frames::write(&mut self.out, &message);
        if is_last {
            // Taking all this down keeps a processor busy. The parent says when: it closes our standard input.
            loop {
                std::thread::park();
            }
        }
        sent.map_err(|_| Gone)
    }
    fn receive(&mut self) -> Result<ToVm, Gone> {
        self.inbox.recv().map_err(|_| Gone)
    }
}
