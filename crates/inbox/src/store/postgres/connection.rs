//! A connection to a PostgreSQL server, for threads that block on replies.
//!
//! A separate thread drives the connection, so callers need no async runtime, but may run inside one. Both
//! this module and the server limit how long each query may take.

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;
#[cfg(test)]
use std::time::Instant;

use bytes::{BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_postgres::config::{Config, TargetSessionAttrs};
use tokio_postgres::error::Severity;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{AsyncMessage, Client, Connection, Error, NoTls, SimpleQueryMessage, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::server::Server;
use crate::store::block_on::block_on_with_timeout;
use crate::store::error::StoreError;
use crate::store::sql::{Cell, Dialect, Row, Sql, Value};
#[cfg(test)]
use crate::store::test_recorder as recorder;
use crate::store::url::DatabaseUrl;

/// How much longer than the server's own timeout we wait for a statement.
const GRACE: Duration = Duration::from_secs(2);
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// The server ends a transaction that has been idle for this long, because the client must be gone.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionOptions {
    /// Whether the server must accept changes.
    pub writes: bool,
    /// The timeout of a statement.
    pub statement: Duration,
}

pub(crate) type OnNotification = Box<dyn FnMut() + Send>;

/// An open connection. Dropping it closes the connection in the background.
pub struct PgConnection {
    pub(super) client: Client,
    server: Server,
    patience: Duration,
    /// Whether the server has sent a warning since the last check.
    warned: Arc<AtomicBool>,
    prepared: RefCell<HashMap<String, Statement>>,
    _alive: oneshot::Sender<Infallible>,
}

impl PgConnection {
    pub(crate) fn open(server: &Server, session: ConnectionOptions) -> Result<PgConnection, StoreError> {
        PgConnection::open_listening(server, session, None)
    }

    /// Connects, starts the thread that drives the connection, and sets the session's timeouts. The thread
    /// calls `heard` for each notification.
    pub(crate) fn open_listening(
        server: &Server,
        session: ConnectionOptions,
        heard: Option<OnNotification>,
    ) -> Result<PgConnection, StoreError> {
        let unreachable = |reason: String| StoreError::Unreachable { server: server.clone(), reason };
        let tls = server.tls().map_err(|error| unreachable(error.to_string()))?;
        let mut config = server.config().clone();
        if session.writes {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let each = config.get_connect_timeout().copied().unwrap_or(GRACE);
        let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(1).max(1);
        // Bound the whole handshake: the server may accept the connection but never reply.
        let bound = each * hosts + GRACE;
        let (told, opened) = sync_channel(1);
        let (alive, over) = oneshot::channel();
        let warned = Arc::new(AtomicBool::new(false));
        let channels = DriverChannels { opened: told, warned: Arc::clone(&warned), heard, over };
        let drive = move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(channels.opened.send(Err(error.to_string()))),
            };
            runtime.block_on(async {
                match tls.map(|tls| MakeRustlsConnect::new(Arc::unwrap_or_clone(tls))) {
                    None => connect_and_drive(&config, NoTls, bound, channels).await,
                    Some(tls) => connect_and_drive(&config, tls, bound, channels).await,
                }
            });
            // Do not wait for a name resolution that hangs.
            runtime.shutdown_background();
        };
        thread::Builder::new()
            .name("inbox-postgres".to_owned())
            .spawn(drive)
            .map_err(|error| unreachable(error.to_string()))?;
        let client = match opened.recv_timeout(bound + GRACE) {
            Ok(Ok(client)) => client,
            Ok(Err(reason)) => return Err(unreachable(reason)),
            Err(_) => return Err(unreachable("no reply in time".to_owned())),
        };
        let connection = PgConnection {
            client,
            server: server.clone(),
            patience: session.statement + GRACE,
            warned,
            prepared: RefCell::default(),
            _alive: alive,
        };
        let millis = |duration: Duration| duration.as_millis();
        // Not as startup options, which poolers refuse or ignore.
        connection.run_statements(&format!(
            "SET default_transaction_isolation = 'read committed'; SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {};
             SET client_min_messages = warning; SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5;
             SET tcp_keepalives_count = 3",
            millis(session.statement),
            millis(LOCK_TIMEOUT.min(session.statement / 5)),
            millis(IDLE_TIMEOUT),
        ))?;
        Ok(connection)
    }

    /// Executes statements without parameters.
    pub(super) fn run_statements(&self, statements: &str) -> Result<(), StoreError> {
        self.wait(self.client.batch_execute(statements))
    }

    /// The first value of the first row, without a prepared statement.
    pub(super) fn query_text(&self, sql: &str) -> Result<String, StoreError> {
        let messages = self.wait(self.client.simple_query(sql))?;
        let value = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        value.map(str::to_owned).ok_or(StoreError::Damaged("a value has an unexpected type"))
    }

    /// Blocks until the server replies. Fails with [`StoreError::Unreachable`] if that takes longer than the
    /// statement timeout and [`GRACE`].
    pub(super) fn wait<T>(&self, asked: impl Future<Output = Result<T, Error>>) -> Result<T, StoreError> {
        match block_on_with_timeout(asked, self.patience) {
            Some(answer) => answer.map_err(|error| self.to_store_error(&error)),
            None => Err(self.unreachable("no reply in time")),
        }
    }

    /// Prepares a statement, or returns it if this connection has prepared it before.
    pub(super) fn prepare(&self, sql: &str) -> Result<Statement, StoreError> {
        if let Some(statement) = self.prepared.borrow().get(sql) {
            return Ok(statement.clone());
        }
        // Statements are written for both databases; PostgreSQL numbers parameters with `$`.
        let statement = self.wait(self.client.prepare(&sql.replace('?', "$")))?;
        self.prepared.borrow_mut().insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Prepares an `INSERT` that takes each column as an array. `into` names the table and its columns.
    pub(super) fn prepare_insert(&self, into: &str) -> Result<Statement, StoreError> {
        let (table, names) = into.split_once(' ').unwrap_or_default();
        let names = names.trim_matches(['(', ')']);
        let described = self.prepare(&format!("SELECT {names} FROM {table} LIMIT 0"))?;
        let types = described.columns().iter().map(|column| column.type_().name());
        let arrays: Vec<String> =
            types.zip(1..).map(|(name, number)| format!("?{number}::{name}[]")).collect();
        self.prepare(&format!("INSERT INTO {into} SELECT * FROM unnest({})", arrays.join(", ")))
    }

    /// Whether the server has sent a warning since the last call. It does so if it stops waiting for a
    /// standby but reports the commit as successful.
    pub(super) fn was_warned(&self) -> bool {
        self.warned.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.client.is_closed()
    }

    pub(super) fn unreachable(&self, reason: &str) -> StoreError {
        StoreError::Unreachable { server: self.server.clone(), reason: reason.to_owned() }
    }

    /// Converts an error. Omits the server's message, because it could quote data.
    pub(super) fn to_store_error(&self, error: &Error) -> StoreError {
        let Some(error) = error.as_db_error() else {
            return if self.client.is_closed() || error.is_closed() {
                self.unreachable("the connection is lost")
            } else if let Some(source) =
                std::error::Error::source(error).filter(|source| source.is::<io::Error>())
            {
                self.unreachable(&source.to_string())
            } else {
                StoreError::Damaged("a value does not match its column's type")
            };
        };
        let shared_sessions = || StoreError::SharedSessions(DatabaseUrl::Postgres(self.server.clone()));
        // PgBouncer's answer to `BEGIN` if it pools by statement.
        if error.code().code() == "08P01" && error.message().contains("pooling mode") {
            return shared_sessions();
        }
        // After such an error, the connection is closed, and the outcome of a commit is unknown.
        if matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic)) {
            return self.unreachable("the server has ended the connection");
        }
        match error.code().code() {
            "53100" => StoreError::Full,
            "25006" => StoreError::ReadOnly,
            // Lock timeouts, deadlocks and concurrent inserts: a retry may succeed.
            "55P03" | "40001" | "40P01" => StoreError::Locked,
            // The server is shutting down, or has ended the session.
            "57P01" | "57P02" | "57P03" | "25P03" => self.unreachable("the server has ended the connection"),
            "53300" => self.unreachable("the server has too many connections"),
            // A statement was prepared in another session, or by another client in this session.
            "26000" | "42P05" => shared_sessions(),
            "57014" => self.unreachable("a statement took too long"),
            code => StoreError::Postgres(code.to_owned()),
        }
    }
}

/// Returns the reason why connecting failed. It contains no secrets: at most, the server names the configured
/// user and database.
fn connect_error_reason(error: &Error) -> String {
    match error.as_db_error() {
        Some(error) => error.message().to_owned(),
        None => std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string),
    }
}

/// The driving thread's channels to the users of the connection.
struct DriverChannels {
    /// Passes the client, or the reason why there is no connection, to the thread that waits for it.
    opened: SyncSender<Result<Client, String>>,
    warned: Arc<AtomicBool>,
    heard: Option<OnNotification>,
    over: oneshot::Receiver<Infallible>,
}

/// Connects within `bound`, sends the result to the thread that waits for it, and drives the connection.
async fn connect_and_drive<T>(config: &Config, tls: T, bound: Duration, told: DriverChannels)
where
    T: tokio_postgres::tls::MakeTlsConnect<tokio_postgres::Socket>,
{
    // If the caller has stopped waiting, the client is dropped, which ends the connection.
    let failure = match timeout(bound, config.connect(tls)).await {
        Ok(Ok((client, connection))) => {
            if told.opened.send(Ok(client)).is_ok() {
                process_messages(connection, told).await;
            }
            return;
        }
        Ok(Err(error)) => connect_error_reason(&error),
        Err(_) => "no reply in time".to_owned(),
    };
    let _ = told.opened.send(Err(failure));
}

/// Drives the connection until its user drops it. Passes on notifications and warnings.
async fn process_messages<S, T>(mut connection: Connection<S, T>, told: DriverChannels)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let DriverChannels { warned, mut heard, mut over, .. } = told;
    let mut listen = pin!(async {
        loop {
            match poll_fn(|cx| connection.poll_message(cx)).await {
                Some(Ok(AsyncMessage::Notification(_))) => {
                    if let Some(heard) = &mut heard {
                        heard();
                    }
                }
                // A notice arrives before the reply that it belongs to.
                Some(Ok(AsyncMessage::Notice(_))) => warned.store(true, Ordering::Relaxed),
                Some(Ok(_)) => {}
                // The client reports the error to callers.
                Some(Err(_)) | None => return,
            }
        }
    });
    tokio::select! {
        () = &mut listen => return,
        _ = &mut over => {}
    }
    // Close the connection cleanly, unless an outstanding reply does not arrive in time.
    let _ = timeout(GRACE, listen).await;
}

/// Prepares each statement once, except those that control a transaction. `insert` is one statement, however
/// many rows there are.
impl Sql for PgConnection {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<usize, StoreError> {
        // Do not prepare these: that would gain nothing, and some poolers do not support it.
        if values.is_empty() {
            let statement = sql.split_ascii_whitespace().next().unwrap_or_default();
            if ["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "NOTIFY", "LISTEN"]
                .contains(&statement)
            {
                return self.run_statements(sql).map(|()| 0);
            }
        }
        let statement = self.prepare(sql)?;
        #[cfg(test)]
        let began = Instant::now();
        let changed = self.wait(self.client.execute_raw(&statement, sql_parameters(values)))?;
        #[cfg(test)]
        recorder::record(self.server.config().get_application_name(), sql, values, began, || 0);
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    fn insert(&self, into: &str, columns: usize, values: &[Value<'_>]) -> Result<(), StoreError> {
        if values.is_empty() {
            return Ok(());
        }
        let statement = self.prepare_insert(into)?;
        let column = |at| values.iter().skip(at).step_by(columns).copied().collect::<Vec<_>>();
        let all: Vec<Vec<Value<'_>>> = (0..columns).map(column).collect();
        self.wait(self.client.execute_raw(&statement, &all)).map(drop)
    }

    fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, StoreError> {
        let statement = self.prepare(sql)?;
        let parameters: Vec<&(dyn ToSql + Sync)> = sql_parameters(values).collect();
        #[cfg(test)]
        let began = Instant::now();
        let rows = self.wait(self.client.query(&statement, &parameters))?;
        #[cfg(test)]
        recorder::record(self.server.config().get_application_name(), sql, values, began, || 0);
        let columns: Arc<[String]> =
            statement.columns().iter().map(|column| column.name().to_owned()).collect();
        let damaged = |_| StoreError::Damaged("a value has an unexpected type");
        let row = |row: &tokio_postgres::Row| {
            let cells = (0..row.len()).map(|column| row.try_get::<_, Cell>(column));
            Ok(Row { columns: columns.clone(), cells: cells.collect::<Result<_, _>>().map_err(damaged)? })
        };
        rows.iter().map(row).collect()
    }
}

fn sql_parameters<'a>(values: &'a [Value<'a>]) -> impl ExactSizeIterator<Item = &'a (dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync))
}

type Failure = Box<dyn std::error::Error + Sync + Send>;

/// Encodes a value as the type that the statement expects: an integer of any width, bytes or a UUID, text or
/// JSON.
impl ToSql for Value<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        match *self {
            Value::Null => return Ok(IsNull::Yes),
            Value::Integer(number) => match *ty {
                Type::INT2 => out.put_i16(number.try_into()?),
                Type::INT4 => out.put_i32(number.try_into()?),
                Type::INT8 => out.put_i64(number),
                _ => return Err(format!("cannot encode a number as {ty}").into()),
            },
            Value::Blob(bytes) => match *ty {
                Type::BYTEA | Type::UUID => out.put_slice(bytes),
                _ => return Err(format!("cannot encode bytes as {ty}").into()),
            },
            // PostgreSQL cannot store NUL in text.
            Value::Text(text) if text.contains('\0') => {
                out.put_slice(text.replace('\0', "\u{fffd}").as_bytes());
            }
            Value::Text(text) => out.put_slice(text.as_bytes()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        // `to_sql` checks the type together with the value.
        true
    }

    to_sql_checked!();
}

/// Fails for types that no statement of the store returns, such as floating-point numbers.
impl<'a> FromSql<'a> for Cell {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Cell, Failure> {
        Ok(match *ty {
            Type::BOOL => Cell::Integer(i64::from(bool::from_sql(ty, raw)?)),
            Type::INT2 => Cell::Integer(i16::from_sql(ty, raw)?.into()),
            Type::INT4 => Cell::Integer(i32::from_sql(ty, raw)?.into()),
            Type::INT8 => Cell::Integer(i64::from_sql(ty, raw)?),
            Type::BYTEA | Type::UUID => Cell::Blob(raw.to_vec()),
            Type::TEXT | Type::VARCHAR | Type::NAME | Type::JSON | Type::UNKNOWN => {
                Cell::Text(str::from_utf8(raw)?.to_owned())
            }
            // The result of a function that returns nothing.
            Type::VOID => Cell::Null,
            _ => return Err(format!("unexpected type {ty} in a result").into()),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Cell, Failure> {
        Ok(Cell::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
