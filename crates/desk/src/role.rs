//! The users who may log in to the web interface, and what their roles permit.

use std::fmt;

/// A user's permissions. Each role includes the permissions of the roles before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// May read, search and export submissions.
    Read,
    /// May also change, discard and erase submissions.
    Edit,
    /// May also send test messages through channels, and see and end the sessions of other users.
    Admin,
}

impl Role {
    /// All roles, in ascending order.
    pub const ALL: [Role; 3] = [Role::Read, Role::Edit, Role::Admin];

    /// The role's name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Edit => "edit",
            Role::Admin => "admin",
        }
    }

    pub fn from_name(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A user who logs in with a link in a mail, or whose role behind a proxy is not the default role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The e-mail address in lower case, which is also the user's name in the log.
    pub address: String,
    pub role: Role,
}

/// The role of a user of a trusted proxy: that of the configured user with this name; `edit` if no user has
/// the name; `admin` if no users are configured.
pub(super) fn proxy_role(users: &[User], name: &str) -> Role {
    match find_user(users, name) {
        Some(user) => user.role,
        None if users.is_empty() => Role::Admin,
        None => Role::Edit,
    }
}

/// The user with this address, regardless of upper and lower case.
pub(super) fn find_user<'a>(users: &'a [User], address: &str) -> Option<&'a User> {
    users.iter().find(|user| user.address.eq_ignore_ascii_case(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_ordered_and_have_names() {
        assert!(Role::Read < Role::Edit && Role::Edit < Role::Admin);
        for role in Role::ALL {
            assert_eq!(Role::from_name(&role.to_string()), Some(role));
        }
        assert_eq!(Role::from_name("Admin"), None);
    }

    #[test]
    fn users_are_found_by_their_addresses_in_any_case() {
        let users = [User { address: "ada@example.com".to_owned(), role: Role::Read }];
        assert_eq!(find_user(&users, "Ada@Example.com"), Some(&users[0]));
        assert_eq!(find_user(&users, "ada@example.co"), None);
    }

    #[test]
    fn a_user_of_a_proxy_is_an_admin_only_if_the_configuration_says_so() {
        let users = |role| [User { address: "ada@example.com".to_owned(), role }];
        for role in Role::ALL {
            assert_eq!(proxy_role(&users(role), "ADA@example.com"), role);
            assert_eq!(proxy_role(&users(role), "ada"), Role::Edit);
        }
        assert_eq!(proxy_role(&[], "ada"), Role::Admin);
    }
}
