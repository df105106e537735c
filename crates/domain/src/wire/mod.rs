//! Version 1 of what travels: between device and server ([`relay`]), from an execution to its watchers
//! ([`event`]), to the owner's browser ([`owner`]), and what the owner is told in words ([`said`]).
//!
//! Wire types only grow: a member once sent is never renamed or retyped; unknown members are ignored.
pub mod event;
pub mod owner;
pub mod relay;
pub mod said;
