//! What the queue is handed by whoever runs it: the time and randomness. Only shipped binaries read the real ones.
use domain::Timestamp;

/// Tells the time. Implemented by any closure that returns it.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
}

impl<F: Fn() -> Timestamp + Send + Sync + 'static> Clock for F {
    fn now(&self) -> Timestamp {
        self()
    }
}

/// Fills bytes nobody can guess (or, in the simulation, bytes that follow from the seed).
pub trait Random: Send + Sync + 'static {
    fn fill(&self, out: &mut [u8]);
}

impl<F: Fn(&mut [u8]) + Send + Sync + 'static> Random for F {
    fn fill(&self, out: &mut [u8]) {
        self(out);
    }
}

/// `N` bytes from the handed-in randomness.
pub(crate) fn bytes<const N: usize>(random: &dyn Random) -> [u8; N] {
    let mut out = [0; N];
    random.fill(&mut out);
    out
}
