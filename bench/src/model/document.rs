//! Puts tables into a document, each between two lines that say which one it is.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};

const BEHIND: &str = "<!-- end of table -->";

/// The document with these tables in the place of those that it has. An error where a table has no place, or a place no table.
pub fn fill(document: &str, tables: &BTreeMap<&str, String>) -> Result<String> {
    let mut text = String::with_capacity(document.len());
    let mut placed = Vec::new();
    let mut rest = document;
    while let Some((before, from)) = rest.split_once("<!-- table: ") {
        let (name, inside) = from.split_once(" -->").context("a table's first line does not end")?;
        let (_, after) =
            inside.split_once(BEHIND).with_context(|| format!("the table '{name}' does not end"))?;
        let table = tables.get(name).with_context(|| format!("there is no table '{name}'"))?;
        text += before;
        text += &format!("<!-- table: {name} -->\n\n{table}\n{BEHIND}");
        placed.push(name);
        rest = after;
    }
    for name in tables.keys() {
        ensure!(placed.contains(name), "the table '{name}' has no place");
    }
    Ok(text + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "before\n<!-- table: a -->\nold\n<!-- end of table -->\nafter\n";

    #[test]
    fn a_table_takes_the_place_of_the_old_one_and_of_itself() {
        let tables = BTreeMap::from([("a", "| new |\n".to_owned())]);
        let filled = fill(DOCUMENT, &tables).expect("it has its place");
        assert_eq!(filled, "before\n<!-- table: a -->\n\n| new |\n\n<!-- end of table -->\nafter\n");
        assert_eq!(fill(&filled, &tables).ok(), Some(filled));
    }

    #[test]
    fn what_has_no_place_or_is_not_there_is_told() {
        let named = |name| BTreeMap::from([(name, String::new())]);
        assert!(fill(DOCUMENT, &named("b")).is_err());
        assert!(fill("nothing", &named("a")).is_err());
        assert!(fill("<!-- table: a -->", &named("a")).is_err());
    }
}
