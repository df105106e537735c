//! A cage for one command: Landlock and seccomp on Linux, Seatbelt on macOS, none elsewhere (and then it is said).
//!
//! The cage is built by a helper: a program of ours started anew with [`HELPER_FLAG`], single-threaded, which locks itself in and then becomes
//! the command. Where a sandbox is expected and cannot be had, the helper ends with [`NOT_CAGED`] and nothing runs.
//! Inside: reading of the system's programs and libraries and of the granted folders, writing of folders granted for it and of the command's
//! own temporary folder, no network or sockets of any kind, no tracing, no namespaces, no way out of the process group by which it is killed.
#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(target_os = "macos", test))]
mod seatbelt;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// First argument by which a program knows that it was started as the helper.
pub const HELPER_FLAG: &str = "--sandbox-exec";
/// Exit code of a helper that could not build the cage; the reason is on its standard error.
pub const NOT_CAGED: u8 = 199;

/// Whether commands run in a sandbox on this kind of system. Where true, a command without one is refused.
pub const EXPECTED: bool = cfg!(any(target_os = "linux", target_os = "macos"));

/// What one command may touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cage {
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    pub folder: PathBuf,
    pub argv: Vec<OsString>,
}

impl Cage {
    /// The helper's arguments, [`HELPER_FLAG`] first.
    pub fn to_args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec![HELPER_FLAG.into()];
        let named = |flag: &str, path: &Path| [OsString::from(flag), path.as_os_str().to_owned()];
        args.extend(self.read.iter().flat_map(|p| named("--read", p)));
        args.extend(self.write.iter().flat_map(|p| named("--write", p)));
        args.extend(named("--folder", &self.folder));
        args.push("--".into());
        args.extend(self.argv.iter().cloned());
        args
    }

    /// Reads what [`Cage::to_args`] wrote, without the flag itself.
    fn from_args(args: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let mut cage = Self::default();
        let mut args = args.into_iter();
        while let Some(flag) = args.next() {
            if flag == "--" {
                cage.argv = args.collect();
                return if cage.argv.is_empty() { Err("no command".into()) } else { Ok(cage) };
            }
            let value = PathBuf::from(args.next().ok_or("a flag without its value")?);
            match flag.to_str() {
                Some("--read") => cage.read.push(value),
                Some("--write") => cage.write.push(value),
                Some("--folder") => cage.folder = value,
                _ => return Err(format!("unknown flag {}", flag.to_string_lossy())),
            }
        }
        Err("no command".into())
    }
}

/// What a program does whose first argument is [`HELPER_FLAG`]: `args` are the ones after it. Does not come back if all goes well.
pub fn helper_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let why = match Cage::from_args(args) {
        Ok(cage) => become_command(&cage),
        Err(why) => why,
    };
    eprintln!("the sandbox could not be built: {why}");
    ExitCode::from(NOT_CAGED)
}

#[cfg(target_os = "linux")]
fn become_command(cage: &Cage) -> String {
    use std::os::unix::process::CommandExt;
    if let Err(why) = linux::lock_in(cage) {
        return why;
    }
    let (Some(program), rest) = (cage.argv.first(), cage.argv.get(1..).unwrap_or_default()) else { return "no command".into() };
    let error = std::process::Command::new(program).args(rest).exec();
    // The cage stands; it is the command that cannot be started, and that is the command's own failure.
    eprintln!("{}: {error}", program.to_string_lossy());
    std::process::exit(127)
}

#[cfg(target_os = "macos")]
fn become_command(cage: &Cage) -> String {
    use std::os::unix::process::CommandExt;
    if let Err(e) = std::env::set_current_dir(&cage.folder) {
        return format!("{}: {e}", cage.folder.display());
    }
    let error = std::process::Command::new("/usr/bin/sandbox-exec").arg("-p").arg(seatbelt::profile(cage)).arg("--").args(&cage.argv).exec();
    format!("sandbox-exec: {error}")
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn become_command(_cage: &Cage) -> String {
    "there is no sandbox on this system".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helper_reads_what_it_was_given() {
        let cage = Cage {
            read: vec!["/a b".into(), "--write".into()],
            write: vec!["/w".into()],
            folder: "/w".into(),
            argv: ["echo", "--", "--read", ""].map(Into::into).to_vec(),
        };
        let args = cage.to_args();
        assert_eq!(Cage::from_args(args.into_iter().skip(1)), Ok(cage));
        for bad in [&["--read"] as &[&str], &["--folder", "/w"], &["--folder", "/w", "--"], &["--exec", "x", "--", "y"]] {
            assert!(Cage::from_args(bad.iter().map(OsString::from)).is_err(), "{bad:?}");
        }
    }
}
