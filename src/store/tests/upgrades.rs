//! Inboxes of earlier layouts are migrated with all their content.

use std::collections::BTreeSet;

use super::*;
use crate::store::sql::{Sql, values};

const HELD: Uuid = Uuid::from_u128(0x019a_0000_0000_7000_8000_0000_0000_0001);
const WAITING: Uuid = Uuid::from_u128(0x019a_0000_0000_7000_8000_0000_0000_0002);
const LISTED: Uuid = Uuid::from_u128(0x019a_0000_0000_7000_8000_0000_0000_0003);
const PENDING: Uuid = Uuid::from_u128(0x019a_0000_0000_7000_8000_0000_0000_0004);

/// Creates an inbox of an earlier layout: its original tables, and these migrations.
fn old_inbox(fresh: &Fresh, tables: &str, upgrades: &[&str]) -> Box<dyn Sql> {
    if let Some(file) = fresh.url.file() {
        fs::create_dir(file.parent().unwrap()).unwrap();
    }
    let sql = fresh.sql();
    for script in [tables].iter().chain(upgrades) {
        let lines: Vec<&str> = script.lines().filter(|line| !line.starts_with("--")).collect();
        for statement in lines.join("\n").split(";\n").filter(|statement| !statement.trim().is_empty()) {
            sql.execute(statement, &[]).unwrap();
        }
    }
    sql
}

/// The columns of all tables and views, and the names of all indexes.
fn schema(sql: &dyn Sql) -> BTreeSet<String> {
    let queries = match sql.dialect() {
        sql::Dialect::Sqlite => [
            "SELECT s.name || '.' || c.name || ' ' || c.type FROM sqlite_schema s, pragma_table_info(s.name) c",
            "SELECT sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL",
        ],
        sql::Dialect::Postgres => [
            "SELECT concat_ws(' ', table_name, column_name, data_type) FROM information_schema.columns WHERE table_schema = current_schema()",
            "SELECT replace(indexdef, current_schema(), '') FROM pg_indexes WHERE schemaname = current_schema()",
        ],
    };
    let rows = queries.map(|query| sql.query(query, &[]).unwrap());
    rows.iter().flatten().map(|row| row.get(0).unwrap()).collect()
}

#[test]
fn an_inbox_of_an_earlier_layout_keeps_all_it_has() {
    let is_file = Fresh::place().url.file().is_some();
    let (tables, first, upgrade) = if is_file {
        (include_str!("layout_3.sql"), 3, include_str!("../../../migrations/sqlite/upgrade_to_4.sql"))
    } else {
        let upgrade = include_str!("../../../migrations/postgres/upgrade_to_2.sql");
        (include_str!("layout_1_postgres.sql"), 1, upgrade)
    };
    check(tables, &[], first);
    check(tables, &[upgrade], first + 1);
}

fn check(tables: &str, upgrades: &[&str], layout: i64) {
    let fresh = Fresh::place();
    let sql = old_inbox(&fresh, tables, upgrades);
    let sql = &*sql;
    let secret = fingerprint::Secret([7; 32]);
    let (message, address) = (contact("waits"), waitlist("ada@example.com"));
    let at = message.received_at.as_millisecond();
    sql.execute("INSERT INTO meta VALUES ('secret', ?1)", values![[7; 32]]).unwrap();
    let insert =
        "INSERT INTO submission (id, form, received_at, fields, source, repeats, held_at, held_because)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    for (id, form, text, repeats, held) in [
        (HELD, "contact", "{\"message\":\"held\"}", 2_i64, Some("odd")),
        (WAITING, "contact", "{\"message\":\"waits\"}", 0, None),
        (LISTED, "waitlist", "{\"email\":\"ada@example.com\"}", 0, None),
    ] {
        let held_at = held.map(|_| at);
        sql.execute(insert, values![id.as_bytes(), form, at, text, [0; 16], repeats, held_at, held]).unwrap();
    }
    for (id, state, due_at) in [(HELD, "held", None), (WAITING, "waiting", Some(at))] {
        let insert = "INSERT INTO delivery (submission, channel, state, due_at, attempts) VALUES (?1, 'crm', ?2, ?3, 1)";
        sql.execute(insert, values![id.as_bytes(), state, due_at]).unwrap();
    }
    let attempt = "INSERT INTO attempt (submission, channel, number, began_at) VALUES (?1, 'crm', 1, ?2)";
    sql.execute(attempt, values![HELD.as_bytes(), at]).unwrap();
    for (arrival, id, expires_at) in [(&message, WAITING, Some(at)), (&address, LISTED, None)] {
        let hash = secret.content(&arrival.entry);
        let insert = "INSERT INTO fingerprint (key, submission, expires_at) VALUES (?1, ?2, ?3)";
        sql.execute(insert, values![hash, id.as_bytes(), expires_at]).unwrap();
    }
    let has_intake = !upgrades.is_empty();
    if has_intake {
        let insert = "INSERT INTO intake (id, form, received_at, fields, source, evidence, channels, content, content_expires_at)
             VALUES (?1, 'contact', ?2, ?3, ?4, ?5, 0, ?6, ?2)";
        let evidence = serde_json::to_string(&contact("pending").evidence).unwrap();
        let content = secret.content(&contact("pending").entry);
        let fields = "{\"message\":\"pending\"}";
        sql.execute(insert, values![PENDING.as_bytes(), at, fields, [0; 16], evidence, content]).unwrap();
    }
    let numbered: &[&str] = match sql.dialect() {
        sql::Dialect::Sqlite => {
            &["PRAGMA application_id = 1178882891", &format!("PRAGMA user_version = {layout}")]
        }
        sql::Dialect::Postgres => &[
            "CREATE TABLE frontdesk_layout (layout bigint NOT NULL, readable_from bigint NOT NULL)",
            &format!("INSERT INTO frontdesk_layout VALUES ({layout}, 1)"),
        ],
    };
    for statement in numbered {
        sql.execute(statement, &[]).unwrap();
    }

    assert!(matches!(InboxReader::open(&fresh.url), Err(StoreError::TooOld(_))));
    assert!(matches!(Editor::open(&fresh.url), Err(StoreError::TooOld(_))));
    let options = Options::new(fresh.url.clone());
    let fixture = Fixture { store: TestInbox::open(&options).unwrap(), options, runtime: runtime(), fresh };
    assert_eq!(schema(&*fixture.fresh.sql()), schema(&*Fixture::new().fresh.sql()), "from layout {layout}");
    if has_intake {
        let settled = fixture.runtime.block_on(fixture.store.settle(PENDING)).unwrap();
        assert_eq!(settled, Accepted::New(PENDING));
        fixture.keep_again(&later(&contact("pending"), MILLISECOND), PENDING);
    }
    // Repeats are recognized.
    fixture.keep_again(&later(&message, Duration::from_hours(23)), WAITING);
    fixture.keep_again(&later(&address, 400 * DAY), LISTED);
    let find = |id| fixture.reader().get(id).unwrap().unwrap();
    let (held, waiting) = (find(HELD), find(WAITING));
    assert_eq!((held.status, held.repeats, held.get("message")), (Status::Held, 2, Some("held")));
    assert_eq!(held.held.as_ref().unwrap().because, "odd");
    assert_eq!((waiting.status, waiting.repeats), (Status::Waiting, 1));
    assert_eq!((&held.screening, held.released_at, &held.agent), (&None, None, &None));
    assert_eq!(fixture.reader().deliveries(HELD).unwrap()[0].attempts.len(), 1);
}
