//! Files that a command names: read within bounds, and what is wrong with them in words that say what to do.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

/// What a file is called in messages; `-` is standard input.
pub fn name(file: &Path) -> String {
    if is_stdin(file) { "standard input".to_owned() } else { file.display().to_string() }
}

fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// The bytes of a file, or of standard input for `-`: so many at most.
///
/// # Errors
/// What is wrong with which file.
pub fn bytes(file: &Path, most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = if is_stdin(file) {
        io::stdin().take(most + 1).read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|opened| opened.take(most + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| format!("{}: {}", name(file), config::unreadable(&error)))?;
    if bytes.len() as u64 > most {
        return Err(format!("{}: it is larger than {} MiB", name(file), most >> 20));
    }
    Ok(bytes)
}

/// The same as text.
///
/// # Errors
/// Those of [`bytes`]; that it is not UTF-8.
pub fn text(file: &Path, most: u64) -> Result<String, String> {
    String::from_utf8(bytes(file, most)?).map_err(|_| format!("{}: it is not UTF-8; save it as UTF-8", name(file)))
}

/// Finds out whether a file can be written; one that is not there is not there afterwards.
///
/// # Errors
/// Why it could not be, behind its name.
pub fn probe(file: &Path) -> Result<(), String> {
    let mut options = OpenOptions::new();
    let probed = match options.append(true).open(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            options.create_new(true).open(file).and_then(|_| std::fs::remove_file(file))
        }
        opened => opened.map(drop),
    };
    probed.map_err(|error| unwritten(file, &error))
}

/// Why a file could not be written, behind its name.
pub fn unwritten(file: &Path, error: &io::Error) -> String {
    let why = match error.kind() {
        ErrorKind::AlreadyExists => "is there already, and nothing is written over; name another file, or move it away",
        ErrorKind::NotFound => "its folder is not there; make it, or name a file elsewhere",
        ErrorKind::NotADirectory => "a part of its path is a file; name a file elsewhere",
        ErrorKind::IsADirectory => "is a folder; name a file in it",
        ErrorKind::PermissionDenied => "may not be written by this user; name a file elsewhere",
        ErrorKind::ReadOnlyFilesystem => "its disk is read-only; name a file elsewhere",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "its disk is full; make room, or name a file elsewhere",
        _ => return format!("{}: cannot be written: {error}", file.display()),
    };
    format!("{}: {why}", file.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_or_written_is_named_with_what_to_do() {
        let folder = std::env::temp_dir();
        for (file, told) in [
            (folder.join("mai-none-such"), "is not there; check its path"),
            (Path::new("/dev/null/below").to_owned(), "is not there: a part of its path is a file; check its path"),
            (folder.clone(), "is a folder; name a file in it"),
        ] {
            assert_eq!(bytes(&file, 1).unwrap_err(), format!("{}: {told}", file.display()));
        }
        assert_eq!(bytes(Path::new("/dev/zero"), 1 << 20).unwrap_err(), "/dev/zero: it is larger than 1 MiB");
        for (kind, told) in [
            (ErrorKind::AlreadyExists, "x: is there already, and nothing is written over; name another file"),
            (ErrorKind::PermissionDenied, "x: may not be written by this user; name a file elsewhere"),
            (ErrorKind::TimedOut, "x: cannot be written: timed out"),
        ] {
            let error = unwritten(Path::new("x"), &kind.into());
            assert!(error.starts_with(told), "{error}");
        }
    }
}
