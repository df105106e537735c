//! The child process in which one Graph's script runs. Speaks frames over stdio; started by the engine only.
mod heap;

#[global_allocator]
static HEAP: heap::Counted = heap::Counted;

fn main() {
    engine::vm::serve_stdio(std::env::args_os().nth(1).is_some_and(|purpose| purpose == engine::vm::LINT))
}
