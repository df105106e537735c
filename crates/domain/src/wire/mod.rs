//! Version 1 of what travels: between device and server ([`relay`]), from an execution to its watchers
//! ([`event`]), and to the owner's browser ([`owner`]).
//!
//! Wire types only grow: a member once sent is never renamed or retyped; unknown members are ignored.
pub mod event;
pub mod owner;
pub mod relay;
