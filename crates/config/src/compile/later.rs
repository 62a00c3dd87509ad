//! Checks of what this version accepts for later ones: a sound file stays sound when it comes into force.

use crate::view::View;

use super::Compiler;

pub(super) fn check(_compiler: &mut Compiler<'_>, _root: &View<'_>) {}
