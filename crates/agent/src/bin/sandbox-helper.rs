//! The sandbox's helper by itself, for tests. The apps carry it inside: they start themselves anew with the same flag.
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(flag) if flag == agent::sandbox::HELPER_FLAG => agent::sandbox::helper_main(args),
        _ => ExitCode::FAILURE,
    }
}
