//! The seeded world: the real relay, the real server router and the real stores on a simulated clock.
//!
//! Replaced are the clock, randomness, the socket and the time a Graph takes; everything else is the code that ships. It shows the
//! published figures again ([`table`]), searches for faults ([`faults`]) and derives from them what polling to advise ([`advice`])
//! and what a queue carries ([`scale`]). Invariant: the same seed gives the
//! same bytes; nothing here reads a wall clock, the environment or the order of a hash.
pub mod advice;
pub mod agent;
pub mod clock;
pub mod experiments;
pub mod faults;
pub mod findings;
pub mod graph;
pub mod net;
pub mod report;
pub mod rng;
pub mod scale;
pub mod stats;
pub mod strategy;
pub mod table;
pub mod world;
