//! Reads the configuration and the files that it names. A file that never ends, such as a pipe or
//! `/dev/zero`, is refused, because a reload that waits for it would wait for good.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Maximum size of a file in bytes. A list of domains can have a few megabytes.
const MAX_BYTES: u64 = 64 << 20;

/// The content of a file, without a byte order mark. Fails if it is not a regular file, or larger than
/// [`MAX_BYTES`].
pub(super) fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe without this flag waits until another program writes to it.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("it is larger than {} MiB", MAX_BYTES >> 20)));
    }
    // Remove the byte order mark that editors on Windows write.
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    Ok(bytes)
}

/// Like [`read_bytes`], but fails if the content is not UTF-8.
pub(super) fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read_bytes(path)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not valid UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        std::fs::write(&file, "text").expect("it is written");
        assert_eq!(read_text(&file).expect("it is read"), "text");
        std::fs::write(&file, "\u{feff}text\u{feff}").expect("it is written");
        assert_eq!(read_text(&file).expect("it is read"), "text\u{feff}");
        std::fs::write(&file, [0xff]).expect("it is written");
        assert_eq!(read_text(&file).expect_err("no text").to_string(), "it is not valid UTF-8");
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("a pipe");
        for path in [&pipe, Path::new("/dev/zero"), folder.path()] {
            let error = read_bytes(path).expect_err("it is no regular file").to_string();
            assert_eq!(error, "it is not a regular file", "{}", path.display());
        }
    }
}
