//! The web view's code, after the last window is gone: in an app that sits in the tray for weeks nobody needs it.
//!
//! WebKitGTK's libraries stay in memory as long as nobody else wants the room. Its network process stays as well, for a next window:
//! ending it while it begins ends this program (WebKitGTK takes that for a crash of its own), so it is left alone.

/// Called when the last window is gone.
#[cfg(target_os = "linux")]
pub fn let_go_soon() {
    tauri::async_runtime::spawn(async {
        // The web view's own tidying up needs its code once more.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let_go_of_code();
    });
}

/// Code that is needed again is read again from its file: this frees memory, and changes nothing.
#[cfg(target_os = "linux")]
fn let_go_of_code() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for (start, length) in maps.lines().filter_map(code_of_a_library) {
        // SAFETY: a private mapping of a file that may be executed and not written holds nothing but that file's bytes. What the kernel drops
        // of it is mapped again at the next touch.
        #[allow(unsafe_code)]
        let dropped = unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED) };
        if dropped != 0 {
            return tracing::debug!(error = %std::io::Error::last_os_error(), "the code of the web view stays in memory");
        }
    }
}

/// Where a line of the process's memory map is the code of a shared library: its start and length.
#[cfg(target_os = "linux")]
fn code_of_a_library(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_whitespace();
    let (range, rights) = (words.next()?, words.next()?);
    let file = words.nth(3)?;
    let (start, end) = range.split_once('-')?;
    let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
    (rights == "r-xp" && file.starts_with('/') && file.contains(".so")).then_some((start, end.checked_sub(start)?))
}

#[cfg(not(target_os = "linux"))]
pub fn let_go_soon() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_read_again_is_let_go_of() {
        let code = "7f00-9f00 r-xp 00001000 fe:00 42   /usr/lib/libwebkit2gtk-4.1.so.0.19.9";
        assert_eq!(code_of_a_library(code), Some((0x7f00, 0x2000)));
        for other in [
            "7f00-9f00 rw-p 00001000 fe:00 42   /usr/lib/libwebkit2gtk-4.1.so.0.19.9",
            "7f00-9f00 r--p 00001000 fe:00 42   /usr/lib/libwebkit2gtk-4.1.so.0.19.9",
            "7f00-9f00 rwxp 00000000 00:00 0 ",
            "7f00-9f00 r-xp 00000000 00:00 0   [vdso]",
            "7f00-9f00 r-xp 00001000 fe:00 42   /usr/bin/graph-desk",
            "",
        ] {
            assert_eq!(code_of_a_library(other), None, "{other}");
        }
        // This very test goes on in code that was let go of: what is needed is read again, and nothing else is touched.
        let kept = String::from("on the heap");
        let_go_of_code();
        assert_eq!(kept.to_uppercase(), "ON THE HEAP");
    }
}
