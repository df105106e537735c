//! The design's type faces, looked up once for all windows.
//!
//! `tokens.css` names faces and leaves the choice to the web view: the first installed one wins. WebKitGTK goes through that list anew for
//! each size and weight, 3 ms a name, a third of a window's start. Here it is gone through once, before the first window, and the page is
//! told the face that won. What is *not* here: the list itself; other web views, for which the page's own list stands.
#[cfg(target_os = "linux")]
pub use linux::script;

/// A page is told nothing: its own list stands.
#[cfg(not(target_os = "linux"))]
pub fn script() -> String {
    String::new()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::{BTreeMap, HashSet};

    use gtk::pango::prelude::FontFamilyExt as _;
    use gtk::prelude::GtkSettingsExt as _;
    use gtk::{gdk, pango};

    const TOKENS: &str = include_str!("../../ui/src/app/tokens.css");
    const LISTS: [&str; 2] = ["--font", "--mono"];

    /// What each page runs before it is drawn. To be called on the main thread, after GTK has found its display.
    pub fn script() -> String {
        let families = gdk::pango_context_get().map(|context| context.list_families()).unwrap_or_default();
        let installed: HashSet<String> = families.iter().map(|family| family.name().to_lowercase()).collect();
        let named = gtk::Settings::default().and_then(|settings| settings.gtk_font_name());
        let system = named.and_then(|font| pango::FontDescription::from_string(&font).family());
        let system_is_installed = system.is_some_and(|family| installed.contains(&family.to_lowercase()));
        let is_installed = |face: &str| if face == "system-ui" { system_is_installed } else { installed.contains(&face.to_lowercase()) };
        let won: BTreeMap<&str, String> = LISTS.into_iter().filter_map(|name| Some((name, first_of(list(name)?, is_installed)))).collect();
        let won = serde_json::to_string(&won).unwrap_or_else(|_| "{}".into());
        format!("for (const [name, face] of Object.entries({won})) document.documentElement.style.setProperty(name, face);")
    }

    /// The value of a declaration in `tokens.css`.
    fn list(name: &str) -> Option<&'static str> {
        let (_, rest) = TOKENS.split_once(&format!("\n  {name}:"))?;
        Some(rest.split_once(';')?.0.trim())
    }

    /// The first face of a list that is installed, and the list's last name, which every system has, for letters it does not know.
    fn first_of(list: &str, is_installed: impl Fn(&str) -> bool) -> String {
        let mut faces = list.split(',').map(str::trim);
        let last = faces.next_back().unwrap_or("sans-serif");
        match faces.find(|face| is_installed(face.trim_matches('"'))) {
            Some(face) => format!("{face}, {last}"),
            None => last.to_owned(),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_first_installed_face_wins() {
            let list = r#""Inter", system-ui, "DejaVu Sans", sans-serif"#;
            for (installed, won) in [
                (&["Inter", "DejaVu Sans"][..], r#""Inter", sans-serif"#),
                (&["DejaVu Sans", "system-ui"], "system-ui, sans-serif"),
                (&["DejaVu Sans"], r#""DejaVu Sans", sans-serif"#),
                (&[], "sans-serif"),
            ] {
                assert_eq!(first_of(list, |face| installed.contains(&face)), won);
            }
        }

        #[test]
        fn the_lists_are_those_of_the_design() {
            for (name, last) in [("--font", "sans-serif"), ("--mono", "monospace")] {
                let list = list(name).unwrap();
                assert!(list.starts_with('"') && list.ends_with(last), "{name}: {list}");
            }
        }
    }
}
