//! Puts the reader's built pages (`server/reader/dist`, made by `npm --prefix ui run build`) into the program, compressed and as they are.
//! Without them the program is built all the same and shows its plain page.
use std::{
    env, fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The folder is always there, so that an absent build does not make every build a new one.
    println!("cargo::rerun-if-changed=reader");
    println!("cargo::rerun-if-changed=build.rs");
    let dist = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("reader/dist");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut files = Vec::new();
    if dist.join("reader.html").exists() {
        collect(&dist, &dist, &mut files)?;
    }
    files.sort();
    let mut code = String::from("pub static FILES: &[File] = &[\n");
    for (number, name) in files.iter().enumerate() {
        let plain = dist.join(name);
        let gzip = out.join(format!("{number}.gz"));
        let mut encoder = GzEncoder::new(fs::File::create(&gzip)?, Compression::best());
        encoder.write_all(&fs::read(&plain)?)?;
        encoder.finish()?;
        code.push_str(&format!("    File {{ name: {name:?}, gzip: include_bytes!({gzip:?}), plain: include_bytes!({plain:?}) }},\n"));
    }
    code.push_str("];\n");
    Ok(fs::write(out.join("reader.rs"), code)?)
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<String>) -> Result<(), Box<dyn std::error::Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else if let Some(name) = path.strip_prefix(root)?.to_str() {
            files.push(name.replace('\\', "/"));
        }
    }
    Ok(())
}
