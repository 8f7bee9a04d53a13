//! Saved views: lists that an operator has saved under a name, for all operators.

use super::inbox_editor::Editor;
use super::inbox_reader::InboxReader;
use super::operator_log::OperatorAction;
use super::{from_row, values};
use crate::store::error::StoreError;

/// Maximum length of the name of a view, in characters.
pub const MAX_VIEW_NAME: usize = 60;
/// Maximum length of the query of a view, in bytes.
const MAX_QUERY: usize = 2000;
/// Maximum number of saved views.
pub const MAX_VIEWS: usize = 50;

/// A saved view: a list of submissions under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedView {
    pub name: String,
    /// The filters, as the parameters of a URL.
    pub query: String,
    /// The name of the user who last saved the view.
    pub user: String,
}

/// The result of saving a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    Saved,
    /// A different list with this name has been replaced.
    Replaced,
    /// The name is empty, too long, or has a control character, or the query is too long.
    Invalid,
    /// There are already [`MAX_VIEWS`] views with other names.
    TooMany,
}

impl Editor {
    /// Saves a list under the trimmed `name`. Replaces a view with the same name, even another user's.
    pub fn save_view(&mut self, name: &str, query: &str) -> Result<Saved, StoreError> {
        let name = name.trim();
        let is_valid = !name.is_empty()
            && name.chars().count() <= MAX_VIEW_NAME
            && !name.chars().any(char::is_control)
            && query.len() <= MAX_QUERY;
        if !is_valid {
            return Ok(Saved::Invalid);
        }
        let (user, entry) = (self.user().to_owned(), self.log_entry(OperatorAction::SaveView));
        self.commit_and_notify(|tx| {
            let others: usize =
                tx.one_value("SELECT count(*) FROM saved_view WHERE name <> ?1", values![name])?;
            if others >= MAX_VIEWS {
                return Ok(Saved::TooMany);
            }
            let other = "SELECT 1 FROM saved_view WHERE name = ?1 AND query <> ?2";
            let has_replaced = tx.exists(other, values![name, query])?;
            tx.execute(
                "INSERT INTO saved_view (name, query, actor) VALUES (?1, ?2, ?3)
                 ON CONFLICT (name) DO UPDATE SET query = excluded.query, actor = excluded.actor",
                values![name, query, user],
            )?;
            entry.add(tx, 1)?;
            Ok(if has_replaced { Saved::Replaced } else { Saved::Saved })
        })
    }

    /// Removes a saved view. Returns whether there was one with this name.
    pub fn remove_view(&mut self, name: &str) -> Result<bool, StoreError> {
        let entry = self.log_entry(OperatorAction::RemoveView);
        self.commit_and_notify(|tx| {
            let is_removed = tx.execute("DELETE FROM saved_view WHERE name = ?1", values![name])? > 0;
            if is_removed {
                entry.add(tx, 1)?;
            }
            Ok(is_removed)
        })
    }
}

impl InboxReader {
    /// All saved views, sorted by name.
    pub fn saved_views(&self) -> Result<Vec<SavedView>, StoreError> {
        self.sql.query_as("SELECT name, query, actor AS \"user\" FROM saved_view ORDER BY name", &[])
    }
}

from_row! { SavedView { name, query, user } }
