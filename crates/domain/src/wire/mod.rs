//! Version 1 of what travels: between device and server ([`relay`]), and from an execution to its watchers ([`event`]).
//!
//! Wire types only grow: a member once sent is never renamed or retyped; unknown members are ignored.
pub mod event;
pub mod relay;
