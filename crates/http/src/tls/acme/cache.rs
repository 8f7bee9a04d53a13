//! The ACME client's cache files: the account and the certificate, each readable only by the server's user.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The paths of the two cache files. Each file name contains a digest of the authority and of the domains or
/// contacts, so a changed configuration does not reuse old files.
pub(super) struct AcmeCache {
    /// The private key and the certificate chain, as PEM.
    pub certificate: PathBuf,
    /// The account's credentials, as JSON.
    pub account: PathBuf,
}

impl AcmeCache {
    /// The cache files in a folder. `directory` is the URL of the authority's directory. The certificate's
    /// file differs by `domains`, the account's by `contact`, and both by `directory`.
    pub fn at(folder: &Path, domains: &[String], contact: &[String], directory: &str) -> Self {
        Self {
            certificate: folder.join(format!("certificate-{}.pem", file_name_digest(domains, directory))),
            account: folder.join(format!("account-{}.json", file_name_digest(contact, directory))),
        }
    }

    /// Like [`AcmeCache::at`], and makes sure that the folder exists and that only the server's user can use
    /// it.
    pub fn open(folder: &Path, domains: &[String], contact: &[String], directory: &str) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        std::fs::set_permissions(folder, Permissions::from_mode(0o700))?;
        Ok(Self::at(folder, domains, contact, directory))
    }

    /// The stored credentials for the authority with this directory URL, if the file exists and is usable.
    pub fn load_account(&self, directory: &str) -> Option<String> {
        let json = std::fs::read_to_string(&self.account).ok()?;
        let value: serde_json::Value = serde_json::from_str(&json).ok()?;
        (value.get("directory")?.as_str()? == directory).then_some(json)
    }
}

/// A short hash of `owners` (domains or contacts) and the authority. Includes the lengths of the texts, so
/// that different lists do not yield the same input.
fn file_name_digest(owners: &[String], directory: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    for text in owners.iter().map(String::as_str).chain([directory]) {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

/// Replaces a file atomically, after syncing the new content to disk. Only the server's user can read the
/// file. A failure may leave a draft beside the file, with the extension `new`.
pub(super) fn replace_file(file: &Path, content: &str) -> io::Result<()> {
    let draft = file.with_extension("new");
    let mut written = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    // If the draft already existed, opening it did not change its mode, so set the mode explicitly.
    written.set_permissions(Permissions::from_mode(0o600))?;
    written.write_all(content.as_bytes())?;
    written.sync_all()?;
    std::fs::rename(&draft, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::Acme;

    const DIRECTORY: &str = "https://acme.example.net/dir";

    fn acme(folder: &Path) -> Acme {
        Acme {
            domains: vec!["www.example.com".into()],
            email: String::new(),
            directory: DIRECTORY.into(),
            ca_file: None,
            cache: folder.join("data/acme"),
        }
    }

    fn open(acme: &Acme) -> AcmeCache {
        AcmeCache::open(&acme.cache, &acme.domains, acme.contact_url().as_slice(), &acme.directory)
            .expect("the folder can be created")
    }

    #[test]
    fn stored_files_are_private_and_found_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let acme = acme(folder.path());
        let credentials = format!(r#"{{"id":"1","directory":"{DIRECTORY}"}}"#);
        let cache = open(&acme);
        assert!(!cache.certificate.exists());
        assert_eq!(cache.load_account(DIRECTORY), None);
        let draft = cache.certificate.with_extension("new");
        std::fs::write(&draft, "an interrupted call has left this").expect("it can be written");
        std::fs::set_permissions(&draft, Permissions::from_mode(0o644)).expect("it can be changed");
        for _ in 0..2 {
            replace_file(&cache.certificate, "pem").expect("it can be written");
            replace_file(&cache.account, &credentials).expect("it can be written");
        }

        let later = open(&acme);
        assert_eq!(std::fs::read(&later.certificate).expect("readable"), b"pem");
        assert_eq!(later.load_account(DIRECTORY), Some(credentials));
        let with = |change: fn(&mut Acme)| {
            let mut changed = acme.clone();
            change(&mut changed);
            open(&changed)
        };
        let other_domain = with(|acme| acme.domains = vec!["example.com".into()]);
        assert!(!other_domain.certificate.exists());
        assert!(other_domain.load_account(DIRECTORY).is_some());
        let other_directory = with(|acme| acme.directory = "https://other.example.net/".into());
        assert!(!other_directory.certificate.exists());
        assert_eq!(other_directory.load_account("https://other.example.net/"), None);
        let other_contact = with(|acme| acme.email = "hello@example.com".into());
        assert_eq!(other_contact.load_account(DIRECTORY), None);

        let permissions =
            |path: &Path| std::fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
        assert_eq!(permissions(&acme.cache), 0o700);
        let files: Vec<_> = std::fs::read_dir(&acme.cache).expect("a folder").flatten().collect();
        assert_eq!(files.len(), 2);
        for file in files {
            assert_eq!(permissions(&file.path()), 0o600, "{:?}", file.file_name());
        }
    }

    #[test]
    fn an_account_file_that_cannot_be_used_is_ignored() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = open(&acme(folder.path()));
        for content in ["", "{", "{}", r#"{"directory":7}"#, r#"{"directory":"no URL"}"#] {
            replace_file(&cache.account, content).expect("it can be written");
            assert_eq!(cache.load_account(DIRECTORY), None, "{content}");
        }
    }
}
