//! Makes a debug build of the server panic at chosen points (`panics::inject`).

use std::path::PathBuf;

/// A file with the points at which the server panics. It may change while the server runs.
pub struct PanicPoints {
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl PanicPoints {
    /// `points` are lines such as `page news.md`: a point, and a part of the item's name.
    pub fn new(points: &[&str]) -> PanicPoints {
        let folder = tempfile::tempdir().expect("a folder");
        let points_file = PanicPoints { file: folder.path().join("points"), _folder: folder };
        points_file.set(points);
        points_file
    }

    pub fn set(&self, points: &[&str]) {
        let draft = self.file.with_extension("draft");
        std::fs::write(&draft, points.join("\n")).expect("it can be written");
        std::fs::rename(&draft, &self.file).expect("it can be renamed");
    }

    /// The environment variable that makes a process read the file.
    pub fn variable(&self) -> (&'static str, &str) {
        ("INJECT_PANICS", self.file.to_str().expect("the name is text"))
    }
}
