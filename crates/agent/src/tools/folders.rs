//! Granted folders. The one place that turns a path somebody wrote into an open file or folder.
//!
//! Each grant is opened once; everything below is reached through its handle (cap-std), so that no `..`, symbolic link or race leads out of
//! it. What was opened is then located by its *real* path: the app's own data is refused there, and the narrowest grant around it decides
//! whether it may be written. A hard link inside a grant to a file outside cannot be told apart and can be read; it is never written.
use std::{
    ffi::OsString,
    io,
    path::{Component, Path, PathBuf},
};

use cap_std::{
    ambient_authority,
    fs::{Dir, File, OpenOptions},
};

use super::{Access, Grant, GrantRefused, PrepareError, shown_path};

pub(crate) struct Folder {
    /// Real, absolute.
    pub(crate) root: PathBuf,
    /// As the owner wrote it.
    given: PathBuf,
    dir: Dir,
    pub(crate) access: Access,
}

pub(crate) struct Folders {
    pub(crate) folders: Vec<Folder>,
    /// Real paths of the app's own folders.
    pub(crate) excluded: Vec<PathBuf>,
}

/// An opened place inside a grant.
pub(super) struct Opened<T> {
    pub(super) handle: T,
    pub(super) real: PathBuf,
}

/// The folder a file is to be written into: the deepest that exists, and the folders still to be made below it.
pub(super) struct Parent {
    pub(super) dir: Dir,
    pub(super) dir_real: PathBuf,
    pub(super) missing: Vec<OsString>,
    pub(super) name: OsString,
}
impl Parent {
    pub(super) fn real(&self) -> PathBuf {
        self.missing.iter().fold(self.dir_real.clone(), |path, part| path.join(part)).join(&self.name)
    }
}

impl Folders {
    pub(crate) fn open(grants: &[Grant], excluded: &[PathBuf]) -> (Self, Vec<GrantRefused>) {
        let excluded: Vec<_> = excluded.iter().map(|p| real_or_nearest(p)).collect();
        let (mut folders, mut refused) = (Vec::new(), Vec::new());
        for grant in grants {
            match open_grant(grant, &excluded) {
                Ok(folder) => folders.push(folder),
                Err(why) => refused.push(why),
            }
        }
        (Self { folders, excluded }, refused)
    }

    pub(crate) fn check(grant: &Grant, excluded: &[PathBuf]) -> Result<(), GrantRefused> {
        let excluded: Vec<_> = excluded.iter().map(|p| real_or_nearest(p)).collect();
        open_grant(grant, &excluded).map(|_| ())
    }

    /// The folders a sandboxed command may use: none that contains the app's own data.
    pub(crate) fn for_commands(&self) -> impl Iterator<Item = &Folder> {
        self.folders.iter().filter(|f| !self.excluded.iter().any(|own| own.starts_with(&f.root)))
    }

    pub(super) fn open_file(&self, text: &str) -> Result<Opened<File>, PrepareError> {
        let (folder, below) = self.locate(text)?;
        let is_file =
            |is_file| if is_file { Ok(()) } else { Err(PrepareError::Failed(format!("{} is not a regular file", shown_path(Path::new(text))))) };
        // Looked at before it is opened: opening a device or a pipe can already do something, or hang.
        is_file(!below.as_os_str().is_empty())?; // the granted folder itself
        is_file(folder.dir.metadata(&below).map_err(|e| failed(text, &e))?.is_file())?;
        let handle = folder.dir.open_with(&below, &reading()).map_err(|e| failed(text, &e))?;
        is_file(handle.metadata().map_err(|e| failed(text, &e))?.is_file())?;
        let real = real_path(&handle, folder, &below).map_err(|e| failed(text, &e))?;
        self.permit(&real, Access::Read)?;
        Ok(Opened { handle, real })
    }

    pub(super) fn open_folder(&self, text: &str) -> Result<Opened<Dir>, PrepareError> {
        let (folder, below) = self.locate(text)?;
        let handle = folder.open_dir(&below).map_err(|e| failed(text, &e))?;
        let real = real_path(&handle, folder, &below).map_err(|e| failed(text, &e))?;
        self.permit(&real, Access::Read)?;
        Ok(Opened { handle, real })
    }

    pub(super) fn parent_for_writing(&self, text: &str) -> Result<Parent, PrepareError> {
        let (folder, below) = self.locate(text)?;
        let name =
            below.file_name().ok_or_else(|| PrepareError::Input(format!("{} names a folder, not a file", shown_path(Path::new(text)))))?.to_owned();
        let mut at = below.parent().unwrap_or(Path::new("")).to_owned();
        let mut missing = Vec::new();
        let dir = loop {
            match folder.open_dir(&at) {
                Ok(dir) => break dir,
                // A dangling link is "not found" too; making a folder in its place would follow it, so it is looked at by itself.
                Err(e) if e.kind() == io::ErrorKind::NotFound && folder.dir.symlink_metadata(&at).is_err() && at.file_name().is_some() => {
                    missing.insert(0, at.file_name().map(OsString::from).unwrap_or_default());
                    at.pop();
                }
                Err(e) => return Err(failed(text, &e)),
            }
        };
        let dir_real = real_path(&dir, folder, &at).map_err(|e| failed(text, &e))?;
        let parent = Parent { dir, dir_real, missing, name };
        self.permit(&parent.real(), Access::Write)?;
        Ok(parent)
    }

    /// Whether this real path may be touched so.
    pub(crate) fn permit(&self, real: &Path, access: Access) -> Result<(), PrepareError> {
        if self.is_own(real) {
            return Err(PrepareError::Forbidden(format!("{} is Graph Desk's own data", shown_path(real))));
        }
        let narrowest = self.folders.iter().filter(|f| real.starts_with(&f.root)).max_by_key(|f| f.root.components().count());
        match (narrowest.map(|f| f.access), access) {
            (None, _) => Err(self.outside(real)),
            (Some(Access::Read), Access::Write) => Err(PrepareError::Forbidden(format!("{} is granted for reading only", shown_path(real)))),
            (Some(Access::Read | Access::Write), Access::Read) | (Some(Access::Write), Access::Write) => Ok(()),
        }
    }

    pub(crate) fn is_own(&self, real: &Path) -> bool {
        self.excluded.iter().any(|own| real.starts_with(own))
    }

    /// Which grant a written path means, and the rest of the path below it. Absolute, or relative to the only grant.
    fn locate(&self, text: &str) -> Result<(&Folder, PathBuf), PrepareError> {
        let path = Path::new(text);
        if text.is_empty() || text.contains('\0') {
            return Err(PrepareError::Input("a path must not be empty or hold a NUL".into()));
        }
        if path.components().any(|c| c == Component::ParentDir) {
            return Err(PrepareError::Forbidden(format!("{} contains `..`", shown_path(path))));
        }
        if path.is_absolute() {
            let of = |f: &Folder| path.strip_prefix(&f.root).or_else(|_| path.strip_prefix(&f.given)).ok().map(Path::to_owned);
            let found = self.folders.iter().filter_map(|f| Some((f, of(f)?))).min_by_key(|(_, below)| below.components().count());
            return found.ok_or_else(|| self.outside(path));
        }
        match self.folders.as_slice() {
            [only] => Ok((only, path.components().filter(|c| *c != Component::CurDir).collect())),
            _ => Err(PrepareError::Input(format!("a relative path needs exactly one granted folder; {}", self.in_words()))),
        }
    }

    fn outside(&self, path: &Path) -> PrepareError {
        PrepareError::Forbidden(format!("{} is outside the granted folders; {}", shown_path(path), self.in_words()))
    }

    fn in_words(&self) -> String {
        if self.folders.is_empty() {
            return "no folder is granted".into();
        }
        let list: Vec<_> = self.folders.iter().map(|f| shown_path(&f.root)).collect();
        format!("granted: {}", list.join(", "))
    }
}

impl Folder {
    fn open_dir(&self, below: &Path) -> io::Result<Dir> {
        if below.as_os_str().is_empty() { self.dir.try_clone() } else { self.dir.open_dir(below) }
    }
}

fn open_grant(grant: &Grant, excluded: &[PathBuf]) -> Result<Folder, GrantRefused> {
    let given = grant.path.clone();
    if !given.is_absolute() {
        return Err(GrantRefused::NotAbsolute(given));
    }
    let not_a_folder = |e: io::Error| GrantRefused::NotAFolder { path: given.clone(), why: e.to_string() };
    let root = given.canonicalize().map_err(not_a_folder)?;
    if excluded.iter().any(|own| root.starts_with(own)) {
        return Err(GrantRefused::IsOwnData { path: given });
    }
    if grant.access == Access::Write
        && let Some(own) = excluded.iter().find(|own| own.starts_with(&root))
    {
        return Err(GrantRefused::ContainsOwnData { path: given, own: own.clone() });
    }
    let dir = Dir::open_ambient_dir(&root, ambient_authority()).map_err(not_a_folder)?;
    Ok(Folder { root, given, dir, access: grant.access })
}

/// The real path, or for what does not exist yet the real path of its nearest existing parent and the rest.
fn real_or_nearest(path: &Path) -> PathBuf {
    let mut at = path;
    let mut rest = Vec::new();
    loop {
        if let Ok(real) = at.canonicalize() {
            return rest.iter().rev().fold(real, |p: PathBuf, part| p.join(part));
        }
        match (at.parent(), at.file_name()) {
            (Some(parent), Some(name)) => {
                rest.push(name.to_owned());
                at = parent;
            }
            _ => return path.to_owned(),
        }
    }
}

/// Reading that neither follows what a pipe's writer does nor waits for one.
pub(super) fn reading() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    cap_std::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    options
}

/// Where an open handle really is.
#[cfg(target_os = "linux")]
fn real_path(handle: &impl std::os::fd::AsRawFd, _folder: &Folder, _below: &Path) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd()))
}
#[cfg(not(target_os = "linux"))]
fn real_path<T>(_handle: &T, folder: &Folder, below: &Path) -> io::Result<PathBuf> {
    if below.as_os_str().is_empty() { Ok(folder.root.clone()) } else { folder.dir.canonicalize(below).map(|p| folder.root.join(p)) }
}

/// A refused escape is a ruling; everything else is the file system's own answer.
pub(super) fn failed(text: &str, e: &io::Error) -> PrepareError {
    let path = shown_path(Path::new(text));
    // cap-std's own refusal has no errno; the kernel's (`openat2`) is EXDEV.
    let escape = (e.kind() == io::ErrorKind::PermissionDenied && e.raw_os_error().is_none()) || e.kind() == io::ErrorKind::CrossesDevices;
    if escape { PrepareError::Forbidden(format!("{path} leads out of the granted folders")) } else { PrepareError::Failed(format!("{path}: {e}")) }
}
