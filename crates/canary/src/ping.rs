//! Reports a success to an outside service, which notices when reports stop.

#![expect(clippy::disallowed_methods, reason = "a reply is compared with this machine's clock")]

use std::time::{Duration, Instant};

use http::Method;
use jiff::Timestamp;

use crate::clock_check::ClockReading;
use crate::report::{Outcome, Step, StepResult};
use frontdesk_deliver::webhook::answer::stated_time;
use frontdesk_fetch::{FetchClient, FetchTimeouts, NameResolver, Url};

/// The time limit of one request.
const TIMEOUT: Duration = Duration::from_secs(10);
const ATTEMPTS: usize = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// Requests the URL with GET, up to three times, until a response has a 2xx status. A failure is a warning:
/// submissions still arrive. The result names only the host, because the path may be secret. Also returns
/// the time that the service states in a 2xx response.
pub(crate) async fn ping(url: &Url, client: &FetchClient) -> (StepResult, Option<ClockReading>) {
    let began = Instant::now();
    let mut text = String::new();
    let mut outcome = Outcome::Warning;
    let mut clock = None;
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        let sent = tokio::time::timeout(TIMEOUT, client.send(Method::GET, url, [], "")).await;
        let fault = match sent {
            Ok(Ok(response)) if response.status.is_success() => {
                (outcome, text) =
                    (Outcome::Ok, format!("the success was reported ({})", response.status.as_u16()));
                let server = url.authority();
                clock = stated_time(&response.headers).map(|theirs| ClockReading {
                    server,
                    theirs,
                    ours: Timestamp::now(),
                });
                break;
            }
            Ok(Ok(response)) => format!("it answered {}", response.status.as_u16()),
            Ok(Err(error)) => error.sentence,
            Err(_) => format!("no response within {} s", TIMEOUT.as_secs()),
        };
        text = format!(
            "the success could not be reported ({fault}), so the service may raise an alarm: check `canary.ping_url`"
        );
    }
    (StepResult { step: Step::Ping, subject: url.authority(), outcome, text, took: began.elapsed() }, clock)
}

/// A client for `canary.ping_url`, which may be in a private network.
pub(crate) fn client(options: &crate::CanaryOptions) -> FetchClient {
    let part = TIMEOUT / 2;
    let timeouts = FetchTimeouts { resolve: part, connect: part, tls: part, answer: TIMEOUT, body: part };
    FetchClient::new(NameResolver::System, true, options.extra_roots.as_ref(), timeouts)
}
