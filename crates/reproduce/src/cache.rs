//! The sections an output folder holds: of each figure the one that says most, and whether it is of today's program.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use narrows_runner::RunPlan;

use crate::catalogue::{Figure, Paper};
use crate::section::{Effort, Section};

/// An output folder.
#[derive(Debug)]
pub struct Cache<'a> {
    out: &'a Path,
    /// Today's hash of each plan, by scenario file, figure and size; hashing every plan again for each page would take
    /// longer than drawing the pages. `None` if the file cannot be read.
    now: RefCell<BTreeMap<(PathBuf, String, Effort), Option<String>>>,
}

impl<'a> Cache<'a> {
    /// Looks for figures in the output folder `out`.
    #[must_use]
    pub fn new(out: &'a Path) -> Self {
        Self { out, now: RefCell::default() }
    }

    /// Where a figure's section lies.
    #[must_use]
    pub fn folder(&self, paper: &Paper, figure: &Figure) -> PathBuf {
        self.out.join(&paper.id).join(&figure.id)
    }

    /// Finds the section of a figure with the most runs among those that today's program and files would give again;
    /// without one, the section with the most runs of all, marked [`Section::stale`].
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn section(&self, paper: &Paper, figure: &Figure) -> anyhow::Result<Option<Section>> {
        let folder = self.folder(paper, figure);
        let mut best: Option<Section> = None;
        for size in [Effort::Full, Effort::Quick, Effort::Least] {
            let Some(mut section) = Section::load(&folder, size)? else { continue };
            section.stale = !self.is_of_today(paper, figure, &section);
            if !section.stale {
                return Ok(Some(section));
            }
            best.get_or_insert(section);
        }
        Ok(best)
    }

    fn is_of_today(&self, paper: &Paper, figure: &Figure, section: &Section) -> bool {
        let files = section.files.iter().map(|part| &part.file);
        files.eq(&figure.files)
            && section.files.iter().all(|part| {
                let path = paper.folder.join(&part.file);
                let mut now = self.now.borrow_mut();
                let hash = now.entry((path, figure.id.clone(), section.size)).or_insert_with_key(
                    |(path, _, size)| {
                        RunPlan::load(path, size.sets(figure)).ok().map(|(plan, _)| plan.hash())
                    },
                );
                hash.as_ref() == Some(&part.hash)
            })
    }
}
