//! The table `definition`: the definitions of forms with which submissions were accepted.
//!
//! A definition is stored in the same transaction as the first submission that uses it. It stays when its
//! last submission is removed: it contains only the operator's words, and there are only as many as the
//! operator has ever used. Because no row is removed, a writer that has stored a definition need not look for
//! it again, and accepting a submission costs no query.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use jiff::Timestamp;

use super::{Row, Sql, values};
use crate::store::error::StoreError;
use frontdesk_forms::{DefinitionId, Form, FormSet};

/// The form definitions that are known to be stored in the database, with their ids.
#[derive(Default)]
pub(crate) struct StoredDefinitions(Vec<(&'static Form, DefinitionId)>);

impl StoredDefinitions {
    /// The id, if the definition is known to be stored. Definitions are interned, so their addresses are
    /// compared.
    fn find(&self, form: &'static Form) -> Option<DefinitionId> {
        self.0.iter().find(|(known, _)| std::ptr::eq(*known, form)).map(|(_, id)| *id)
    }

    /// Whether all these definitions are known to be stored.
    pub(crate) fn has_all(&self, mut forms: impl Iterator<Item = &'static Form>) -> bool {
        forms.all(|form| self.find(form).is_some())
    }

    /// Stores a definition unless it is stored, and returns its id. `at` is when a submission with it was
    /// received. If the transaction fails, this value lists definitions that are not stored: discard it.
    pub(super) fn insert(
        &mut self,
        tx: &dyn Sql,
        form: &'static Form,
        at: Timestamp,
    ) -> Result<DefinitionId, StoreError> {
        if let Some(id) = self.find(form) {
            return Ok(id);
        }
        let id = form.id();
        let insert = "INSERT INTO definition (id, form, stored_at, json) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (id) DO NOTHING";
        tx.execute(insert, values![id, form.name, at, form.stored()])?;
        self.0.push((form, id));
        Ok(id)
    }
}

/// The definitions that this process has read. `None` for those that this version cannot read. An id is the
/// hash of a definition, so it means the same in all databases.
static READ: LazyLock<RwLock<HashMap<DefinitionId, Option<&'static Form>>>> = LazyLock::new(RwLock::default);

/// The definition of a row with the columns `form` and `definition`. If none is stored or this version cannot
/// read it, the built-in form of this name; `None` if there is none.
pub(super) fn of_row(sql: &dyn Sql, row: &Row) -> Result<Option<&'static Form>, StoreError> {
    let stored = match row.get::<Option<DefinitionId>>("definition")? {
        Some(id) => read(sql, id)?,
        None => None,
    };
    Ok(stored.or(FormSet::built_in().named(row.text("form")?)))
}

/// Reads all definitions, sorted by the form's name, then by age. Omits those that this version cannot read.
pub(super) fn all(sql: &dyn Sql) -> Result<Vec<&'static Form>, StoreError> {
    let ids: Vec<DefinitionId> = sql.column("SELECT id FROM definition ORDER BY form, stored_at, id", &[])?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(read(sql, id)?);
    }
    Ok(found)
}

/// The definition with this id; `None` if it is not stored, or if this version cannot read it. Remembers
/// stored definitions, readable or not, until the process ends.
fn read(sql: &dyn Sql, id: DefinitionId) -> Result<Option<&'static Form>, StoreError> {
    if let Some(form) = READ.read().unwrap_or_else(PoisonError::into_inner).get(&id) {
        return Ok(*form);
    }
    let stored: Option<String> = sql.value("SELECT json FROM definition WHERE id = ?1", values![id])?;
    let Some(json) = stored else { return Ok(None) };
    let form = Form::from_stored(&json);
    READ.write().unwrap_or_else(PoisonError::into_inner).insert(id, form);
    Ok(form)
}
