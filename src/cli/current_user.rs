//! The name of the operating system's user who runs a command, for the operator log.

/// The name of this process's user in `/etc/passwd`, or `uid 1000` if the user has no name there.
pub(super) fn current_user() -> String {
    let id = rustix::process::getuid().as_raw();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    find_user(&users, id).unwrap_or_else(|| format!("uid {id}"))
}

/// The name of the user with this id in the text of `/etc/passwd`. Skips malformed lines.
fn find_user(users: &str, id: u32) -> Option<String> {
    users.lines().find_map(|line| {
        let mut parts = line.split(':');
        let name = parts.next().filter(|name| !name.is_empty())?;
        (parts.nth(1)?.parse() == Ok(id)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\n\n# none\nada:x:1000:1000::/home/ada:\nbob:x:100:1::/:\n";
        assert_eq!(find_user(users, 1000).as_deref(), Some("ada"));
        assert_eq!(find_user(users, 100).as_deref(), Some("bob"));
        assert_eq!(find_user(users, 1), None);
    }
}
