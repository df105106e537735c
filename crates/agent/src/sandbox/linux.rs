//! Locks the calling (single-threaded) process in for good: own session, limits, Landlock, seccomp.
use std::collections::BTreeMap;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit};
use seccompiler::{SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, apply_filter};

use super::Cage;

/// Programs, libraries and the settings they need to start. Nothing under a home folder, `/var`, `/run` or `/tmp`.
const SYSTEM_READ: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/run/current-system",
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/fonts",
    "/etc/group",
    "/etc/inputrc",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/profile",
    "/etc/ssl",
    "/etc/terminfo",
    "/etc/timezone",
    "/dev/random",
    "/dev/urandom",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/version",
    "/sys/devices/system/cpu",
];
const DEVICES_WRITE: &[&str] = &["/dev/null", "/dev/zero", "/dev/full"];

const CPU_SECONDS_MAX: u64 = 120;
const FILE_BYTES_MAX: u64 = 1 << 30;
const OPEN_FILES_MAX: u64 = 1_024;

pub(super) fn lock_in(cage: &Cage) -> Result<(), String> {
    // A session of its own: no terminal to type into, and one process group to kill.
    rustix::process::setsid().map_err(|e| format!("no session: {e}"))?;
    std::env::set_current_dir(&cage.folder).map_err(|e| format!("{}: {e}", cage.folder.display()))?;
    limit(Resource::Core, 0)?;
    limit(Resource::Cpu, CPU_SECONDS_MAX)?;
    limit(Resource::Fsize, FILE_BYTES_MAX)?;
    limit(Resource::Nofile, OPEN_FILES_MAX)?;
    landlock(cage).map_err(|e| format!("Landlock: {e}"))?;
    seccomp().map_err(|e| format!("seccomp: {e}"))
}

fn limit(resource: Resource, most: u64) -> Result<(), String> {
    let now = rustix::process::getrlimit(resource);
    let most = now.maximum.map_or(most, |hard| hard.min(most));
    rustix::process::setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }).map_err(|e| format!("limit: {e}"))
}

fn landlock(cage: &Cage) -> Result<(), Box<dyn std::error::Error>> {
    // The first version is a must; what later kernels can do more is taken where it is there. What they add and older ones lack is
    // covered by the system call filter (truncate, network), but for signals to other programs of the same person.
    let read = AccessFs::from_read(ABI::V1);
    // Everything that makes or changes files, but no devices and no sockets: as root a new device would be a way out.
    let write = AccessFs::from_all(ABI::V5) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock | AccessFs::IoctlDev);
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))?
        .handle_access(AccessNet::from_all(ABI::V4))?
        .scope(Scope::from_all(ABI::V6))?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM_READ, read))?
        .add_rules(path_beneath_rules(&cage.read, read))?
        .add_rules(path_beneath_rules(DEVICES_WRITE, AccessFs::ReadFile | AccessFs::WriteFile))?
        .add_rules(path_beneath_rules(&cage.write, write))?;
    let status = rules.restrict_self()?;
    match (status.ruleset, status.no_new_privs) {
        (RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced, true) => Ok(()),
        (RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced, false) => Err("privileges could still be gained".into()),
        (RulesetStatus::NotEnforced, _) => Err("this kernel does not enforce it".into()),
    }
}

/// System calls that have no business in a caged command. They fail with EPERM.
const DENIED: &[i64] = &[
    // Network and sockets of every family, local ones included: behind them stand programs with more rights (session bus, containers).
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    // Leaving the group by which everything is killed.
    libc::SYS_setsid,
    libc::SYS_setpgid,
    // By path, and not covered by the first versions of Landlock.
    libc::SYS_truncate,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // Namespaces, mounts, handles: other views of the file system.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_mknodat,
];
#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[i64] = &[libc::SYS_kexec_file_load, libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_mknod, libc::SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const DENIED_HERE: &[i64] = &[libc::SYS_kexec_file_load];

/// These say "not there" (ENOSYS), so that programs fall back: their arguments cannot be looked into, or they go around this filter.
const ABSENT: &[i64] = &[libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// On x86-64 each call also exists under this bit, with its own number.
const X32_BIT: i64 = 0x4000_0000;

fn seccomp() -> Result<(), Box<dyn std::error::Error>> {
    let mut denied: BTreeMap<i64, Vec<SeccompRule>> = both(DENIED).chain(both(DENIED_HERE)).map(|call| (call, Vec::new())).collect();
    let namespaces = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ];
    for call in both(&[libc::SYS_clone]) {
        denied.insert(call, rules(0, namespaces.iter().map(|flag| *flag as u64))?);
    }
    // Putting characters into a terminal's input, which whoever reads it would take for typed.
    for call in both(&[libc::SYS_ioctl]) {
        #[allow(clippy::unnecessary_cast)] // with other C libraries it is one
        let commands = [libc::TIOCSTI, libc::TIOCLINUX].map(|c| equal(1, c as u64));
        denied.insert(call, commands.into_iter().collect::<Result<_, _>>()?);
    }
    let absent = both(ABSENT).map(|call| (call, Vec::new())).collect();
    for (calls, errno) in [(absent, libc::ENOSYS), (denied, libc::EPERM)] {
        let filter = SeccompFilter::new(calls, SeccompAction::Allow, SeccompAction::Errno(errno as u32), std::env::consts::ARCH.try_into()?)?;
        let program: seccompiler::BpfProgram = filter.try_into()?;
        apply_filter(&program)?;
    }
    Ok(())
}

fn both(calls: &'static [i64]) -> impl Iterator<Item = i64> {
    let x32 = cfg!(target_arch = "x86_64");
    calls.iter().flat_map(move |call| [Some(*call), x32.then_some(*call | X32_BIT)]).flatten()
}

fn rules(argument: u8, masks: impl Iterator<Item = u64>) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let rule = |mask| SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(mask), mask)?]);
    masks.map(rule).collect()
}

fn equal(argument: u8, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?])
}
