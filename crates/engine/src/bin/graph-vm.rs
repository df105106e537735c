//! The child process in which one Graph's script runs.
fn main() {}
