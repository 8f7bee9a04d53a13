//! One connection to the server, for a thread that waits for its answers.
//!
//! What is on the wire is driven by a thread of the connection's own, so that whoever asks needs no runtime and may be in one: asking
//! is sending a message to that thread. Every wait is bounded, here and by the server.

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_postgres::config::{Config, TargetSessionAttrs};
use tokio_postgres::error::Severity;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Connection, Error, NoTls, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Server;
use crate::store::StoreError;
#[cfg(test)]
use crate::store::recorder;
use crate::store::sql::{Cell, Dialect, Row, Sql, Value};

/// How long after the server should have given up on a statement we give up on the server.
const GRACE: Duration = Duration::from_secs(2);
/// How long a lock may be waited for.
const LOCK: Duration = Duration::from_secs(5);
/// How long a transaction of ours may be idle before the server ends it, with all its locks: whoever began it is gone.
const IDLE: Duration = Duration::from_secs(20);

/// What a connection is for.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Session {
    /// Whether it must be with a server that takes changes, of the hosts that there are.
    pub writes: bool,
    /// How long one statement may take.
    pub statement: Duration,
}

/// What is done when somebody says something to all who listen.
pub(in crate::store) type Heard = Box<dyn FnMut() + Send>;

/// A connection. It ends when this is dropped.
pub(in crate::store) struct Link {
    client: Client,
    server: Server,
    patience: Duration,
    /// Whether the server has warned of something since this was last asked.
    warned: Arc<AtomicBool>,
    /// By their texts.
    prepared: RefCell<HashMap<String, Statement>>,
    /// Gone with this: whatever is still under way on the connection is given up then.
    _alive: oneshot::Sender<Infallible>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Link {
    /// Connects, or says why that is not possible.
    pub(in crate::store) fn open(server: &Server, session: Session) -> Result<Link, StoreError> {
        Link::open_hearing(server, session, None)
    }

    /// The same, and has `heard` called for each notification.
    pub(in crate::store) fn open_hearing(
        server: &Server,
        session: Session,
        heard: Option<Heard>,
    ) -> Result<Link, StoreError> {
        let unreachable = |reason: String| StoreError::Unreachable { server: server.clone(), reason };
        let tls = server.tls().map_err(|error| unreachable(error.to_string()))?;
        let mut config = server.config().clone();
        let millis = |duration: Duration| duration.as_millis();
        let options = config.get_options().map(|options| format!("{options} ")).unwrap_or_default();
        config.options(format!(
            "{options}-c statement_timeout={} -c lock_timeout={} -c idle_in_transaction_session_timeout={} -c client_min_messages=warning \
             -c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3",
            millis(session.statement),
            millis(LOCK.min(session.statement / 5)),
            millis(IDLE),
        ));
        if session.writes {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let each = config.get_connect_timeout().copied().unwrap_or(GRACE);
        let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(1).max(1);
        // The server may accept and say nothing.
        let bound = each * hosts + GRACE;
        let (told, opened) = sync_channel(1);
        let (alive, over) = oneshot::channel();
        let warned = Arc::new(AtomicBool::new(false));
        let told_of = Told { opened: told, warned: Arc::clone(&warned), heard, over };
        let drive = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => {
                    let _ = told_of.opened.send(Err(Failed::Io(error)));
                    return;
                }
            };
            runtime.block_on(async {
                match tls {
                    None => drive(&config, NoTls, bound, told_of).await,
                    Some(tls) => {
                        let tls = MakeRustlsConnect::new(Arc::unwrap_or_clone(tls));
                        drive(&config, tls, bound, told_of).await;
                    }
                }
            });
            // A look-up that hangs must keep nobody.
            runtime.shutdown_background();
        };
        thread::Builder::new()
            .name("inbox-postgres".to_owned())
            .spawn(drive)
            .map_err(|error| unreachable(error.to_string()))?;
        let client = match opened.recv_timeout(bound + GRACE) {
            Ok(Ok(client)) => client,
            Ok(Err(Failed::Postgres(error))) => return Err(opening(&error, server)),
            Ok(Err(Failed::Io(error))) => return Err(unreachable(error.to_string())),
            Err(_) => return Err(unreachable("no answer in time".to_owned())),
        };
        Ok(Link {
            client,
            server: server.clone(),
            patience: session.statement + GRACE,
            warned,
            prepared: RefCell::default(),
            _alive: alive,
        })
    }

    /// Runs statements without parameters whose rows nobody wants.
    pub(super) fn run(&self, statements: &str) -> Result<(), StoreError> {
        self.wait(self.client.batch_execute(statements))
    }

    /// Waits for an answer, within the bounds of the session.
    pub(super) fn wait<T>(&self, asked: impl Future<Output = Result<T, Error>>) -> Result<T, StoreError> {
        match wait(asked, self.patience) {
            Some(answer) => answer.map_err(|error| self.failed(&error)),
            None => Err(self.unreachable("no answer in time")),
        }
    }

    /// A statement that stays prepared as long as the connection lasts.
    pub(super) fn prepare(&self, sql: &str) -> Result<Statement, StoreError> {
        if let Some(statement) = self.prepared.borrow().get(sql) {
            return Ok(statement.clone());
        }
        // Statements are written for both databases; this is how PostgreSQL numbers its parameters.
        let statement = self.wait(self.client.prepare(&sql.replace('?', "$")))?;
        self.prepared.borrow_mut().insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// A statement that takes each column of a table as an array, and inserts a row for each place in them. `into` names the table and
    /// its columns.
    pub(super) fn prepare_insert(&self, into: &str) -> Result<Statement, StoreError> {
        let (table, names) = into.split_once(' ').unwrap_or_default();
        let names = names.trim_matches(['(', ')']);
        let described = self.prepare(&format!("SELECT {names} FROM {table} LIMIT 0"))?;
        let types = described.columns().iter().map(|column| column.type_().name());
        let arrays: Vec<String> =
            types.zip(1..).map(|(name, number)| format!("?{number}::{name}[]")).collect();
        self.prepare(&format!("INSERT INTO {into} SELECT * FROM unnest({})", arrays.join(", ")))
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Whether the server has warned of something since this was last asked: above all, that it has given up waiting for a standby and calls
    /// the commit a success all the same.
    pub(super) fn was_warned(&self) -> bool {
        self.warned.swap(false, Ordering::Relaxed)
    }

    /// Whether nothing can be asked any more.
    pub(in crate::store) fn is_lost(&self) -> bool {
        self.client.is_closed()
    }

    pub(super) fn unreachable(&self, reason: &str) -> StoreError {
        StoreError::Unreachable { server: self.server.clone(), reason: reason.to_owned() }
    }

    /// What went wrong, in words that quote nothing that was being written.
    pub(super) fn failed(&self, error: &Error) -> StoreError {
        let Some(error) = error.as_db_error() else {
            return if self.client.is_closed() || error.is_closed() {
                self.unreachable("the connection is lost")
            } else if let Some(source) =
                std::error::Error::source(error).filter(|source| source.is::<io::Error>())
            {
                self.unreachable(&source.to_string())
            } else {
                StoreError::Damaged("a value has another type than its column")
            };
        };
        // Whatever it says last, it says no more: a commit may have gone through.
        if matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic)) {
            return self.unreachable("the server has ended the connection");
        }
        match error.code().code() {
            "53100" => StoreError::Full,
            "25006" => StoreError::ReadOnly,
            // Locks that were waited for in vain, two transactions that would have to wait for each other, and a row that has come
            // meanwhile: the same goes well another time.
            "55P03" | "40001" | "40P01" => StoreError::Locked,
            // It stops, or was told to end us.
            "57P01" | "57P02" | "57P03" | "25P03" => self.unreachable("the server has ended the connection"),
            "53300" => self.unreachable("the server has too many connections"),
            "57014" => self.unreachable("a statement took too long"),
            code => StoreError::Postgres(code.to_owned()),
        }
    }
}

/// What the server says while a connection is opened names nobody but the user and the database that were configured.
fn opening(error: &Error, server: &Server) -> StoreError {
    let reason = match error.as_db_error() {
        Some(error) => error.message().to_owned(),
        None => std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string),
    };
    StoreError::Unreachable { server: server.clone(), reason }
}

enum Failed {
    Io(io::Error),
    Postgres(Error),
}

/// What the thread that drives a connection says to those who use it.
struct Told {
    opened: SyncSender<Result<Client, Failed>>,
    warned: Arc<AtomicBool>,
    heard: Option<Heard>,
    /// Ends when the last who uses it is gone.
    over: oneshot::Receiver<Infallible>,
}

async fn drive<T>(config: &Config, tls: T, bound: Duration, told: Told)
where
    T: tokio_postgres::tls::MakeTlsConnect<tokio_postgres::Socket>,
{
    match timeout(bound, config.connect(tls)).await {
        // Whoever has stopped waiting drops the client, and that ends the connection.
        Ok(Ok((client, connection))) => {
            if told.opened.send(Ok(client)).is_ok() {
                attend(connection, told).await;
            }
        }
        Ok(Err(error)) => {
            let _ = told.opened.send(Err(Failed::Postgres(error)));
        }
        Err(_) => {
            let _ = told
                .opened
                .send(Err(Failed::Io(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"))));
        }
    }
}

async fn attend<S, T>(mut connection: Connection<S, T>, told: Told)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let Told { warned, mut heard, mut over, .. } = told;
    let mut listen = pin!(async {
        loop {
            match poll_fn(|cx| connection.poll_message(cx)).await {
                Some(Ok(AsyncMessage::Notification(_))) => {
                    if let Some(heard) = &mut heard {
                        heard();
                    }
                }
                // It comes before the answer that it belongs to, and is noted before that is passed on.
                Some(Ok(AsyncMessage::Notice(_))) => warned.store(true, Ordering::Relaxed),
                Some(Ok(_)) => {}
                // Whoever waits for an answer is told by the client.
                Some(Err(_)) | None => return,
            }
        }
    });
    tokio::select! {
        () = &mut listen => return,
        _ = &mut over => {}
    }
    // It says good-bye, unless an answer is outstanding that may never come.
    let _ = timeout(GRACE, listen).await;
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for something that another thread brings about; nothing if it does not in time.
pub(super) fn wait<F: Future>(future: F, patience: Duration) -> Option<F::Output> {
    let deadline = Instant::now() + patience;
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(found) = future.as_mut().poll(&mut context) {
            return Some(found);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        thread::park_timeout(left);
    }
}

impl Sql for Link {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn execute(&self, sql: &str, values: &[Value<'_>]) -> Result<usize, StoreError> {
        // What begins and ends transactions can't be prepared everywhere, and has nothing to gain.
        if values.is_empty() {
            let statement = sql.split_ascii_whitespace().next().unwrap_or_default();
            if ["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "NOTIFY", "LISTEN"]
                .contains(&statement)
            {
                return self.run(sql).map(|()| 0);
            }
        }
        let statement = self.prepare(sql)?;
        #[cfg(test)]
        let began = Instant::now();
        let changed = self.wait(self.client.execute_raw(&statement, parameters(values)))?;
        #[cfg(test)]
        recorder::record(self.server.config().get_application_name(), sql, values, began, || 0);
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    /// One statement however many rows there are: it takes each column as an array.
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
        let parameters: Vec<&(dyn ToSql + Sync)> = parameters(values).collect();
        #[cfg(test)]
        let began = Instant::now();
        let rows = self.wait(self.client.query(&statement, &parameters))?;
        #[cfg(test)]
        recorder::record(self.server.config().get_application_name(), sql, values, began, || 0);
        let damaged = |_| StoreError::Damaged("a row has the wrong shape");
        let row = |row: &tokio_postgres::Row| {
            let cells = (0..row.len()).map(|column| row.try_get::<_, Cell>(column));
            Ok(Row(cells.collect::<Result<_, _>>().map_err(damaged)?))
        };
        rows.iter().map(row).collect()
    }
}

fn parameters<'a>(values: &'a [Value<'a>]) -> impl ExactSizeIterator<Item = &'a (dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync))
}
