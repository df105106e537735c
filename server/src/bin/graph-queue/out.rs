//! Answers on stdout, read by people and by other programs.
use std::{
    fmt::Arguments,
    io::{self, ErrorKind, Write as _},
};

/// A reader that closed its end early (`| head -1`) has what it wanted. Whatever else keeps an answer from being written is an error.
pub fn write(answer: Arguments<'_>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_fmt(answer).and_then(|()| out.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// As `println!`, by the rule of `write`.
macro_rules! tell {
    ($($text:tt)*) => { $crate::out::write(format_args!("{}\n", format_args!($($text)*))) };
}
pub(crate) use tell;
