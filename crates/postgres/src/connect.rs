//! Connects to a server within a time limit, and drives the connection on a thread, so that its users need no
//! async runtime.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_postgres::config::{Config, TargetSessionAttrs};
use tokio_postgres::{AsyncMessage, Client, Connection, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::connection_settings::Server;

/// The time limit for closing a connection. Also the time that a handshake may take beyond the sum of the
/// hosts' connect timeouts.
const GRACE: Duration = Duration::from_secs(2);

pub type OnNotification = Box<dyn FnMut() + Send>;

/// A connection, which a thread drives until `client` is dropped, or for at most two seconds after `alive` is
/// dropped.
pub struct Connected {
    pub client: Client,
    /// Set by the thread when the server sends a notice: any warning and, unless `client_min_messages`
    /// excludes them, less important messages.
    pub warned: Arc<AtomicBool>,
    pub alive: oneshot::Sender<Infallible>,
}

/// Connects, and starts the thread that drives the connection, which calls `heard` for each notification.
/// Blocks for at most the sum of the hosts' connect timeouts plus four seconds. If `writes` is set, the
/// server must accept changes. If a pooler refuses the parameter `options`, connects without it, now and from
/// then on. The error is the reason.
pub fn connect(server: &Server, writes: bool, heard: Option<OnNotification>) -> Result<Connected, String> {
    let tls = server.tls().map_err(|error| error.to_string())?;
    let mut config = server.config().clone();
    if writes {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    let each = config.get_connect_timeout().copied().unwrap_or(GRACE);
    let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(1).max(1);
    // Bound the whole handshake: the server may accept the connection but never reply.
    let bound = each * hosts + GRACE;
    let (result, opened) = sync_channel(1);
    let (alive, user_gone) = oneshot::channel();
    let warned = Arc::new(AtomicBool::new(false));
    let channels = DriverChannels { opened: result, warned: Arc::clone(&warned), heard, user_gone };
    let target = server.clone();
    let drive = move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(channels.opened.send(Err(error.to_string()))),
        };
        runtime.block_on(async {
            match tls.map(|tls| MakeRustlsConnect::new(Arc::unwrap_or_clone(tls))) {
                None => connect_and_drive(&target, config, NoTls, bound, channels).await,
                Some(tls) => connect_and_drive(&target, config, tls, bound, channels).await,
            }
        });
        // Do not wait for a name resolution that hangs.
        runtime.shutdown_background();
    };
    thread::Builder::new()
        .name("inbox-postgres".to_owned())
        .spawn(drive)
        .map_err(|error| error.to_string())?;
    match opened.recv_timeout(bound + GRACE) {
        Ok(Ok(client)) => Ok(Connected { client, warned, alive }),
        Ok(Err(reason)) => Err(reason),
        Err(_) => Err("no reply in time".to_owned()),
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

/// Whether a pooler has refused to connect because of a parameter of the connection, which can only be
/// `options`, as PgBouncer does unless `ignore_startup_parameters` names it.
fn refuses_options(error: &Error) -> bool {
    error.as_db_error().is_some_and(|error| error.message().contains("startup parameter"))
}

/// The channels between the thread that drives a connection and the users of the connection.
struct DriverChannels {
    /// Passes the client, or the reason why there is no connection, to the thread that called [`connect`].
    opened: SyncSender<Result<Client, String>>,
    warned: Arc<AtomicBool>,
    heard: Option<OnNotification>,
    /// Closes when the user of the connection drops [`Connected::alive`].
    user_gone: oneshot::Receiver<Infallible>,
}

/// Connects within `bound`, sends the result to the thread that waits for it, and drives the connection. If a
/// pooler refuses the parameter `options`, records that and connects without it.
async fn connect_and_drive<T>(
    server: &Server,
    config: Config,
    tls: T,
    bound: Duration,
    channels: DriverChannels,
) where
    T: tokio_postgres::tls::MakeTlsConnect<tokio_postgres::Socket> + Clone,
{
    let connecting = async {
        if let Some(options) = server.options().filter(|_| !server.pooler().refuses_options()) {
            let connected = config.clone().options(options).connect(tls.clone()).await;
            if !connected.as_ref().is_err_and(refuses_options) {
                return connected;
            }
            server.pooler().set_refuses_options();
        }
        config.connect(tls).await
    };
    // If the caller has stopped waiting, the client is dropped, which ends the connection.
    let failure = match timeout(bound, connecting).await {
        Ok(Ok((client, connection))) => {
            if channels.opened.send(Ok(client)).is_ok() {
                process_messages(connection, channels).await;
            }
            return;
        }
        Ok(Err(error)) => connect_error_reason(&error),
        Err(_) => "no reply in time".to_owned(),
    };
    let _ = channels.opened.send(Err(failure));
}

/// Drives the connection until it ends, which it does when its client is dropped, or for at most [`GRACE`]
/// after `user_gone` closes. Passes on notifications, and records that the server has sent a notice.
async fn process_messages<S, T>(mut connection: Connection<S, T>, channels: DriverChannels)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let DriverChannels { warned, mut heard, mut user_gone, .. } = channels;
    let mut listen = pin!(async {
        loop {
            match poll_fn(|cx| connection.poll_message(cx)).await {
                Some(Ok(AsyncMessage::Notification(_))) => {
                    if let Some(heard) = &mut heard {
                        heard();
                    }
                }
                // Record a notice, such as a warning, at once: it arrives before the reply that it belongs
                // to.
                Some(Ok(AsyncMessage::Notice(_))) => warned.store(true, Ordering::Relaxed),
                Some(Ok(_)) => {}
                // Ignore the error: the client returns it to its callers.
                Some(Err(_)) | None => return,
            }
        }
    });
    tokio::select! {
        () = &mut listen => return,
        _ = &mut user_gone => {}
    }
    // Close the connection cleanly, unless an outstanding reply does not arrive in time.
    let _ = timeout(GRACE, listen).await;
}
