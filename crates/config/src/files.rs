//! Files, read once, and compiled together with what the admin API adds to them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use base::KeyHasher;

use crate::added::Added;
use crate::compile::Named;
use crate::disk::Disk;
use crate::node::Node;
use crate::objects::Known;
use crate::problem::Problem;
use crate::view::View;
use crate::whole::Whole;
use crate::{
    ConfigErrors, Loaded, Overrides, Source, check, compile, errors, objects, shape, sort, sources, variables,
};

/// Files as they were read: merged, their variables filled in, and not checked yet. Can be kept, so that what
/// is put to them later does not depend on what becomes of them on disk.
#[derive(Clone)]
pub struct Files {
    read: Arc<Read>,
    named: Arc<Named>,
    /// What came of them last, with what was put to them.
    last: Option<Whole>,
}

struct Read {
    root: Node,
    /// The folder that each file's own paths are relative to.
    folders: HashMap<Arc<str>, PathBuf>,
    /// What to watch of it.
    watched: Vec<PathBuf>,
    overrides: Overrides,
    /// Of variables.
    problems: Vec<Problem>,
    disk: Disk,
}

/// It holds secrets.
impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Files")
    }
}

impl Files {
    /// Reads files, and fills in their variables. Flags beat the environment, which beats the files.
    ///
    /// # Errors
    /// Everything that cannot be read, is not YAML, or contradicts itself between files.
    pub fn read(source: &Source, flags: Overrides, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigErrors> {
        Self::read_from(&Disk::default(), source, flags, env)
    }

    /// The same for whoever reads again and again, and is not to wait each time for what did not come before.
    ///
    /// # Errors
    /// As of [`Files::read`].
    pub fn read_from(
        disk: &Disk,
        source: &Source,
        flags: Overrides,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigErrors> {
        let watched = sources::files(source);
        let mut written = sources::read(source, disk).map_err(|problems| errors(problems, watched.clone()))?;
        let mut problems = Vec::new();
        variables::fill(&mut written.root, "", env, &mut problems);
        let read = Read {
            root: written.root,
            folders: written.folders,
            watched,
            overrides: flags.or_env(env),
            problems,
            disk: disk.clone(),
        };
        Ok(Self { read: Arc::new(read), named: Arc::default(), last: None })
    }

    /// `data_dir`, for whoever needs it before the whole is known to be sound.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        let written = || {
            let tree = shape::Branch::root();
            View::root(&tree, &self.read.root).at("data_dir").text_or_preset().to_owned()
        };
        PathBuf::from(self.read.overrides.data_dir.clone().unwrap_or_else(written))
    }

    /// Puts to them what the admin API adds, checks the whole and compiles it.
    ///
    /// # Errors
    /// Every problem at once.
    pub fn with(&self, added: Added<'_>, keys: &KeyHasher) -> Result<Loaded, ConfigErrors> {
        let read = &*self.read;
        let mut problems = read.problems.clone();
        let mut root = read.root.clone();
        let known = self.last.as_ref().map(|last| Known::of(&last.root, &last.homes));
        let homes = objects::put(&mut root, added.objects, known.as_ref(), &mut problems);
        let tree = shape::Branch::root();
        let found = check::check(&tree, &root);
        problems.extend(found.problems);
        let mut compiler = compile::Compiler {
            hasher: keys,
            overrides: &read.overrides,
            folders: &read.folders,
            problems,
            warnings: Vec::new(),
            prices: compile::Prices::default(),
            not_in_force: Vec::new(),
            files: read.watched.iter().cloned().collect(),
            known: &self.named,
            named: Named::default(),
            disk: &read.disk,
        };
        let mut snapshot = compile::compile(&mut compiler, &View::root(&tree, &root));
        if !compiler.problems.is_empty() {
            return Err(errors(compiler.problems, compiler.files.into_iter().collect()));
        }
        let mut warnings = compiler.warnings;
        for waiting in found.waiting {
            let text = format!("accepted, but not in force in this version; it comes with {}", waiting.capability);
            snapshot.not_in_force.push(waiting.path.clone());
            warnings.push(Problem::new(&waiting.place, waiting.path, text));
        }
        sort(&mut warnings);
        let whole = Whole { root: Arc::new(root), homes: Arc::new(homes) };
        let sound = Self { read: self.read.clone(), named: Arc::new(compiler.named), last: Some(whole.clone()) };
        Ok(Loaded { snapshot, warnings, files: compiler.files.into_iter().collect(), sound, whole })
    }
}
