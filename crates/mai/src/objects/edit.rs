//! `routes edit` and the like: an object in an editor, and back.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use base::ObjectKind;
use config::Piece;
use mai::args::AdminAt;
use tokio::signal::unix::{SignalKind, signal};
use ureq::http::Method;

use super::{LARGEST, at_object, difference, pieces, warn, what_became, written};
use crate::remote::{If, Peer, Told, Trouble};
use crate::table::clean;
use crate::{check, files, say, text};

/// Opens an object in the editor and puts what comes back, if nobody else has changed it meanwhile. A text that could
/// not be put is kept.
pub(super) fn edit(kind: ObjectKind, at: &AdminAt, name: &str) -> Result<(), Trouble> {
    let peer = Peer::admin(at)?;
    let told = peer.get(&at_object(kind, name))?;
    let (etag, object) = (told.etag.clone(), told.json()?);
    let shown = format!("{}/{}", kind.list(), clean(name));
    if text(&object, "managed_by") == "file" {
        let place = text(&object, "file");
        return Err(Trouble::of(config::not_changed_here(&shown, &clean(&place), "change it there")));
    }
    let before = format!(
        "# {shown}. `[secret]` keeps the secret that stands there; a text that is left as it is changes nothing.\n{}\n",
        written(object.get("config"))
    );
    let file = new_file(kind, &before)?;
    let kept = |trouble: Trouble| {
        let path = file.display();
        trouble.and(&format!(
            "your text is kept in {path}; once it is mended, `mai-gateway {} put {path}` puts it",
            kind.list()
        ))
    };
    run_editor(&file).map_err(kept)?;
    // What is no file could be waited for without end.
    if !std::fs::metadata(&file).is_ok_and(|left| left.is_file()) {
        let told = format!("{shown}: the editor has left no file at {}; nothing was changed", file.display());
        return Err(Trouble::of(told));
    }
    let after = files::text(&file, LARGEST).map_err(|why| kept(Trouble::of(why)))?;
    if after == before || after.trim().is_empty() {
        remove(&file);
        say(format!("{shown}: nothing was changed"));
        return Ok(());
    }
    let expected = etag.as_deref().map_or(If::Whatever, If::Matches);
    let told = put_back(&peer, (kind, name), &file, (&object, expected)).map_err(kept)?;
    remove(&file);
    say(format!("{shown} {}", what_became(etag.as_deref(), &told)));
    Ok(())
}

fn put_back(
    peer: &Peer,
    (kind, name): (ObjectKind, &str),
    file: &Path,
    (object, expected): (&serde_json::Value, If<'_>),
) -> Result<Told, Trouble> {
    let config::Pieces { pieces, .. } = pieces(file, Some(kind))?;
    let piece = match pieces.as_slice() {
        [piece] if piece.kind == kind && piece.name == name => piece,
        [Piece { name: other, .. }] => {
            let told = format!("the text is of `{}`; an edit keeps the name `{}`", clean(other), clean(name));
            return Err(Trouble::of(told));
        }
        _ => return Err(Trouble::of(format!("the text must be the one {} `{}`", kind.word(), clean(name)))),
    };
    let (path, body) = (at_object(kind, name), piece.config.to_string());
    let tried = peer.ask(&Method::PUT, &format!("{path}?dry_run=true"), Some(&body), expected)?.json()?;
    say(difference(piece, Some(object), &tried));
    warn(&tried);
    peer.ask(&Method::PUT, &path, Some(&body), expected)
}

/// A file for nobody else to read, and of a name that no other process has.
fn new_file(kind: ObjectKind, text: &str) -> Result<PathBuf, Trouble> {
    let folder = std::env::temp_dir();
    for count in 0..1_000 {
        let name = format!("mai-gateway-{}-{}-{count}.yaml", kind.word(), std::process::id());
        let file = folder.join(name);
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file) {
            Ok(mut opened) => {
                return match opened.write_all(text.as_bytes()) {
                    Ok(()) => Ok(file),
                    Err(error) => Err(no_room(&file, &error)),
                };
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(no_room(&file, &error)),
        }
    }
    Err(Trouble::of(format!("{}: no name is free for a file", folder.display())))
}

fn no_room(file: &Path, error: &std::io::Error) -> Trouble {
    Trouble::of(files::unwritten(file, error))
        .and("The text is edited in a file there: TMPDIR may name another folder.")
}

fn remove(file: &Path) {
    // What is left of it is nobody else's to read, and of no harm.
    let _ = std::fs::remove_file(file);
}

/// Ctrl-C and Ctrl-\ go to every program in the foreground, and in an editor they mean something else: it goes on, and so
/// must this one, as git does. They are taken and not ignored, since what is ignored here the editor would ignore too.
/// What is left to do after it is short, and says where the text is.
fn leave_signals_to_the_editor() {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        for kind in [SignalKind::interrupt(), SignalKind::quit()] {
            // Whoever takes a signal once has taken it for good.
            drop(signal(kind));
        }
    });
}

/// `$VISUAL`, `$EDITOR`, else vi; each may be a command with arguments, as for git.
fn run_editor(file: &Path) -> Result<(), Trouble> {
    let set = |name: &str| check::env(name).filter(|command| !command.trim().is_empty());
    let editor = set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    leave_signals_to_the_editor();
    let ran = Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("editor").arg(file).status();
    match ran {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Trouble::of(format!("the editor (`{editor}`) ended with {status}; set VISUAL or EDITOR"))),
        Err(error) => Err(Trouble::of(format!("the editor (`{editor}`) cannot be run: {error}"))),
    }
}
