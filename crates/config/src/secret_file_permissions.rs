//! Warns if every user of the machine can read a file that holds secrets.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use frontdesk_site::fault::Fault;

/// A file that holds a secret value: the configuration file, or a file that a `…_FILE` variable names.
#[derive(Debug, Clone)]
pub(super) struct SecretFile {
    pub(super) path: PathBuf,
    /// The name of the file in fault messages.
    pub(super) place: String,
    /// The configuration keys whose secret values the file holds; at least one.
    pub(super) keys: Vec<String>,
}

impl SecretFile {
    /// Returns a warning if the file's mode lets every user of this machine read it. `None` if it cannot be
    /// examined.
    ///
    /// The owner and the group may read the file: the server needs group permission to read another user's
    /// file. In the Debian package, the file belongs to root and the group `frontdesk`; in Kubernetes, to the
    /// group in `fsGroup`. The members of the group are not checked: they depend on the machine's name
    /// services, and a file's group is usually set on purpose, while 0644 is the usual mode of a new file.
    pub(super) fn exposure(&self) -> Option<Fault> {
        let mode = std::fs::metadata(&self.path).ok()?.permissions().mode() & 0o7777;
        if mode & 0o004 == 0 {
            return None;
        }
        let path = self.path.display().to_string();
        let keys: Vec<String> = self.keys.iter().map(|key| format!("`{key}`")).collect();
        let message = format!(
            "holds the secret of {}, and every user of this machine can read it (mode {mode:04o})",
            keys.join(", ")
        );
        let hint =
            format!("`chmod o-rwx {}`; the server's user or group must own the file", quote_for_shell(&path));
        Some(Fault::warning(&self.place, None, message).hint(hint))
    }
}

/// Quotes a path for a shell if it needs quotes.
fn quote_for_shell(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if path.chars().all(is_plain) && !path.starts_with('-') {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::path::Path;

    use super::*;
    use crate::{Config, FILE_NAME};

    const SECRET: &str =
        "[[channel]]\nname = \"crm\"\nkind = \"webhook\"\nurl = \"https://hooks.example.com/x\"\n";

    #[test]
    fn a_configuration_with_a_secret_is_not_for_every_user() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(FILE_NAME);
        write(&file, SECRET).expect("it can be written");
        for mode in [0o600, 0o640, 0o440, 0o660] {
            assert_eq!(warnings(folder.path(), mode, &[]), [""; 0], "{mode:o}");
        }
        for mode in [0o644, 0o604, 0o666] {
            let path = file.display();
            let expected = format!(
                "frontdesk.toml: holds the secret of `channel.crm.url`, and every user of this machine can \
                 read it (mode {mode:04o})\n    hint: `chmod o-rwx {path}`; the server's user or group must \
                 own the file"
            );
            assert_eq!(warnings(folder.path(), mode, &[]), [expected], "{mode:o}");
        }
    }

    #[test]
    fn a_configuration_without_a_secret_may_be_read_by_everybody() {
        let folder = tempfile::tempdir().expect("a folder");
        for text in [
            "",
            "[limits]\nshared_url = \"redis://redis.example.com\"\n",
            "[store]\nurl = \"postgres://frontdesk@db.example.com/frontdesk\"\n",
            "[[channel]]\nname = \"mail\"\nkind = \"smtp\"\nhost = \"mail.example.com\"\npassword = \"\"\nfrom = \"a@example.com\"\n",
        ] {
            write(folder.path().join(FILE_NAME), text).expect("it can be written");
            assert_eq!(warnings(folder.path(), 0o644, &[]), [""; 0], "{text}");
        }
        // The secrets are only in the environment.
        let environment = [("FRONTDESK_LIMITS__SHARED_URL", "redis://:secret@redis.example.com")];
        assert_eq!(warnings(folder.path(), 0o644, &environment), [""; 0]);
    }

    #[test]
    fn each_way_to_write_a_secret_counts_also_where_another_value_wins() {
        let folder = tempfile::tempdir().expect("a folder");
        for (text, key) in [
            ("[limits]\nshared_url = \"redis://:x@redis.example.com\"\n", "limits.shared_url"),
            ("[limits]\nshared_url = \"unix:///run/redis.sock?pass=x\"\n", "limits.shared_url"),
            ("[store]\nurl = \"postgres://u:x@db.example.com/frontdesk\"\n", "store.url"),
            ("[limits]\nshared_secret = 1234567890123456\n", "limits.shared_secret"),
            ("[[channel]]\nname = \"crm\"\nkind = \"webhook\"\nchat = \"-100\"\n", "channel.crm.chat"),
            ("[[channel]]\nname = \"crm\"\nkind = \"webhook\"\nchat = -100\n", "channel.crm.chat"),
        ] {
            write(folder.path().join(FILE_NAME), text).expect("it can be written");
            let environment =
                [("FRONTDESK_LIMITS__SHARED_URL", ""), ("FRONTDESK_STORE__URL", "sqlite:inbox.sqlite")];
            let [warning] = &warnings(folder.path(), 0o644, &environment)[..] else { panic!("{text}") };
            assert!(warning.contains(&format!("the secret of `{key}`,")), "{warning}");
        }
    }

    #[test]
    fn a_file_that_a_variable_names_is_looked_at_too() {
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path().join(FILE_NAME), "").expect("it can be written");
        let secret = folder.path().join("it's here");
        let public = folder.path().join("public");
        write(&secret, "redis://:x@redis.example.com\n").expect("it can be written");
        write(&public, "7\n").expect("it can be written");
        let environment = [
            ("FRONTDESK_LIMITS__SHARED_URL_FILE", secret.to_str().expect("a name")),
            ("FRONTDESK_LIMITS__PER_MINUTE_FILE", public.to_str().expect("a name")),
        ];
        set_permissions(&public, Permissions::from_mode(0o644)).expect("ours");
        set_permissions(&secret, Permissions::from_mode(0o600)).expect("ours");
        assert_eq!(warnings(folder.path(), 0o644, &environment), [""; 0]);
        set_permissions(&secret, Permissions::from_mode(0o644)).expect("ours");
        let [warning] = &warnings(folder.path(), 0o644, &environment)[..] else { panic!("one warning") };
        assert!(warning.starts_with(&format!("{}: holds the secret", secret.display())), "{warning}");
        assert!(warning.contains(r"/it'\''s here'`"), "{warning}");
    }

    fn warnings(folder: &Path, mode: u32, environment: &[(&str, &str)]) -> Vec<String> {
        set_permissions(folder.join(FILE_NAME), Permissions::from_mode(mode)).expect("ours");
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let (config, _) = Config::load(folder, environment, &[], None);
        config.exposed_secrets().iter().map(ToString::to_string).collect()
    }
}
