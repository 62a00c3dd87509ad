//! Files to one tree: reading, folders, merging.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::Disk;
use crate::node::{Entry, Map, Node, Value, join};
use crate::problem::{Place, Problem, clean_path};
use crate::yaml;

/// Files of one folder at most.
const MOST_FILES: usize = 1_000;

/// Where a configuration is.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file, or a folder of `*.yaml`, `*.yml` and `*.json` files that are merged.
    Path(PathBuf),
    /// Text that stands in no file; files that it names are relative to the working directory.
    Text {
        /// What messages call it.
        name: String,
        /// YAML or JSON.
        text: String,
    },
}

/// What was read.
#[derive(Debug)]
pub(crate) struct Written {
    pub root: Node,
    /// The folder that each file's own paths are relative to, by the file's name in [`Place`]s.
    pub folders: HashMap<Arc<str>, PathBuf>,
}

/// What to watch, sound or not: the file, or the folder and the files in it. The folder itself is
/// watched too, since files come and go in it.
pub(crate) fn files(source: &Source) -> Vec<PathBuf> {
    let Source::Path(path) = source else { return Vec::new() };
    let mut files = vec![path.clone()];
    files.extend(in_folder(path).unwrap_or_default().into_iter().take(MOST_FILES));
    files
}

/// The configuration files of a folder, in their order.
fn in_folder(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if is_wanted(&path) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Reads and merges everything behind a source.
///
/// # Errors
/// Everything that cannot be read, is not YAML, or contradicts itself between files.
pub(crate) fn read(source: &Source, disk: &Disk) -> Result<Written, Vec<Problem>> {
    match source {
        Source::Text { name, text } => {
            let file: Arc<str> = clean_path(Path::new(name)).into();
            let root = parse(text.as_bytes(), &file)?;
            Ok(Written { root, folders: HashMap::from([(file, PathBuf::new())]) })
        }
        Source::Path(path) if path.is_dir() => read_folder(path, disk),
        Source::Path(path) => read_files(std::slice::from_ref(path), disk),
    }
}

fn read_folder(folder: &Path, disk: &Disk) -> Result<Written, Vec<Problem>> {
    let place = Place::whole(&clean_path(folder));
    let problem = |text: String| vec![Problem::new(&place, "", text)];
    let paths = in_folder(folder).map_err(|error| problem(format!("the folder {}", crate::unreadable(&error))))?;
    if paths.is_empty() {
        return Err(problem("the folder holds no *.yaml, *.yml or *.json file".into()));
    }
    if paths.len() > MOST_FILES {
        return Err(problem(format!("the folder holds more than {MOST_FILES} configuration files")));
    }
    read_files(&paths, disk)
}

/// A file of a configuration folder. Hidden names are skipped: editors keep their backups there,
/// and Kubernetes the folders (`..data`) that its visible links point into. A link that leads nowhere is one all the
/// same: it was to lead to routes and clients, and whoever left it out would take them out of force.
fn is_wanted(path: &Path) -> bool {
    let is_hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    let is_ours = path.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|ours| end == *ours));
    !is_hidden && is_ours && !path.is_dir()
}

fn read_files(paths: &[PathBuf], disk: &Disk) -> Result<Written, Vec<Problem>> {
    let mut folders = HashMap::new();
    let mut problems = Vec::new();
    let mut merged: Option<Node> = None;
    for path in paths {
        let file: Arc<str> = clean_path(path).into();
        folders.insert(Arc::clone(&file), path.parent().unwrap_or(Path::new("")).to_owned());
        let read = disk
            .read(path, yaml::LONGEST_FILE)
            .map_err(|text| vec![Problem::new(&Place::whole(&file), "", format!("the file {text}"))])
            .and_then(|bytes| parse(&bytes, &file));
        match (read, merged.as_mut()) {
            (Err(found), _) => problems.extend(found),
            // A list of prices may lie among the files; it is read by the key that names it.
            (Ok(root), _) if paths.len() > 1 && is_price_list(&root) => {}
            (Ok(root), None) => merged = Some(root),
            (Ok(root), Some(merged)) => merge(merged, root, "", &mut problems),
        }
    }
    match merged {
        Some(root) if problems.is_empty() => Ok(Written { root, folders }),
        _ => Err(problems),
    }
}

fn parse(bytes: &[u8], file: &Arc<str>) -> Result<Node, Vec<Problem>> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes.iter().take(error.valid_up_to()).filter(|byte| **byte == b'\n').count();
        let place = Place { file: Arc::clone(file), line, column: 0 };
        vec![Problem::new(&place, "", "the file is not UTF-8; save it as UTF-8")]
    })?;
    if text.len() as u64 > yaml::LONGEST_FILE {
        return Err(vec![Problem::new(&Place::whole(file), "", "the text is larger than 8 MiB")]);
    }
    Ok(alone(yaml::parse(text, file)?))
}

/// A route's own mapping, as it is posted to the admin API, is a configuration of that one route.
fn alone(root: Node) -> Node {
    let is_route = root.map().is_some_and(|map| {
        map.contains_key("name") && ["match", "upstream", "upstreams"].iter().any(|key| map.contains_key(*key))
    });
    if !is_route {
        return root;
    }
    let place = root.place.clone();
    let routes = Node { value: Value::List(vec![root]), place: place.clone() };
    let map = Map::from([("routes".to_owned(), Entry { place: place.clone(), node: routes })]);
    Node { value: Value::Map(map), place }
}

/// No configuration has `models`, and every list of prices does.
fn is_price_list(root: &Node) -> bool {
    root.get("models").is_some_and(|models| models.list().is_some())
}

/// Lists follow each other, mappings grow together, and two different scalars are a contradiction.
fn merge(into: &mut Node, from: Node, path: &str, problems: &mut Vec<Problem>) {
    let place = from.place.clone();
    match (&mut into.value, from.value) {
        (Value::List(items), Value::List(more)) => items.extend(more),
        (Value::Map(entries), Value::Map(more)) => {
            for (key, entry) in more {
                let path = join(path, &key);
                match entries.get_mut(&key) {
                    Some(known) => merge(&mut known.node, entry.node, &path, problems),
                    None => {
                        entries.insert(key, entry);
                    }
                }
            }
        }
        (Value::Scalar(one), Value::Scalar(other)) if *one == other => {}
        _ => problems.push(Problem::new(
            &place,
            path,
            format!("is also written at {}, with another value; keep one", into.place),
        )),
    }
}
