//! The ACME client (RFC 8555): orders and renews certificates, and answers TLS-ALPN-01 challenges (RFC 8737).

#![expect(clippy::disallowed_methods, reason = "the renewal time depends on the clock")]

mod cache;
mod challenge;
mod http;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Error, Identifier, NewAccount, NewOrder, Order, OrderStatus,
    RetryPolicy,
};
use jiff::Timestamp;
use tokio::time::{sleep, timeout};
use tokio_rustls::rustls::ServerConfig;

use super::certificate::{self, CurrentCertificate, ServerCertificate, TlsStartError};
use cache::AcmeCache;
use challenge::Challenges;
use frontdesk_fetch::ExtraRoots;
use frontdesk_process::panics::{self, Part};
use http::Http;

pub(super) use challenge::is_challenge;

/// The number of consecutive failures that are retried quickly; later retries wait at least [`SLOW_RETRY`].
const QUICK_RETRIES: u32 = 3;

/// The minimum wait after further failures: Let's Encrypt allows a name five failed validations an hour.
const SLOW_RETRY: Duration = Duration::from_mins(30);

/// The wait after a failure starts at one second and doubles at most this many times, to about 18 hours.
const MAX_DOUBLINGS: u32 = 16;

/// How often the clock is compared with the renewal time, so that a corrected clock is noticed.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_hours(1);

/// The time limit for a whole order, from fetching the directory to receiving the certificate.
const ORDER_TIMEOUT: Duration = Duration::from_mins(10);

/// How the client polls the authority while the authority validates names and issues the certificate.
const POLLING: RetryPolicy =
    RetryPolicy::new().initial_delay(Duration::from_millis(500)).backoff(1.5).timeout(Duration::from_mins(4));

/// The maximum length of a logged error, which may quote a long response from the authority.
const MAX_ERROR_CHARS: usize = 600;

/// The problem type for a rejected nonce (RFC 8555 §6.5).
const BAD_NONCE: &str = "urn:ietf:params:acme:error:badNonce";

/// The problem type for an unknown account (RFC 8555 §6.7).
const ACCOUNT_DOES_NOT_EXIST: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

/// The options of the ACME client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acme {
    /// The domain names in the certificate. The authority must be able to reach this server at each of them.
    pub domains: Vec<String>,
    /// The contact address of the account; may be empty.
    pub email: String,
    /// The URL of the authority's directory.
    pub directory: String,
    /// A PEM file of root certificates that are trusted for the authority in addition to the public ones.
    pub ca_file: Option<PathBuf>,
    /// The folder that stores the account, the key and the certificate.
    pub cache: PathBuf,
}

impl Acme {
    /// The certificates in `ca_file`; `None` without a file. The error names the file.
    pub(super) fn load_roots(&self) -> Result<Option<ExtraRoots>, String> {
        let Some(path) = &self.ca_file else { return Ok(None) };
        let named = |error: String| format!("{}: {error}", path.display());
        let pem = std::fs::read(path).map_err(|error| named(error.to_string()))?;
        ExtraRoots::parse(&pem).map(Some).map_err(named)
    }

    /// The certificate in the cache. `None` if there is none, or if it cannot be read.
    pub(super) fn cached_certificate(&self) -> Option<ServerCertificate> {
        let pem = std::fs::read(self.certificate_file()).ok()?;
        ServerCertificate::parse(&pem, &pem).ok()
    }

    /// The path of the cached certificate for these domains and this authority.
    pub fn certificate_file(&self) -> PathBuf {
        let contact = self.contact_url();
        AcmeCache::at(&self.cache, &self.domains, contact.as_slice(), &self.directory).certificate
    }

    fn contact_url(&self) -> Option<String> {
        (!self.email.is_empty()).then(|| format!("mailto:{}", self.email))
    }
}

/// Uses the cached certificate, if there is one, and starts the thread that orders and renews certificates.
/// Returns the TLS configuration for the authority's validation handshakes.
pub(super) fn start(
    acme: &Acme,
    current: Arc<CurrentCertificate>,
) -> Result<Arc<ServerConfig>, TlsStartError> {
    let roots = acme.load_roots().map_err(TlsStartError::Roots)?;
    let client = Arc::new(Client::open(acme.clone(), roots.as_ref(), current)?);
    let challenge = Arc::new(certificate::tls_config(client.challenges.clone(), &[challenge::ACME_TLS])?);
    client.use_cached_certificate();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let orders =
        move || panics::restart_after_panic("certificate orders", || runtime.block_on(run(client.clone())));
    std::thread::Builder::new().name("acme".into()).spawn(orders)?;
    Ok(challenge)
}

/// Orders a certificate whenever one is due. Logs a failure, and tries again after [`delay`]. Never returns.
async fn run(client: Arc<Client>) {
    let mut failures = Failures::default();
    loop {
        let wait = delay(Timestamp::now(), client.validity(), failures);
        if failures == Failures::default() && wait > CLOCK_CHECK_INTERVAL {
            sleep(CLOCK_CHECK_INTERVAL).await;
            continue;
        }
        sleep(wait).await;
        match client.clone().obtain().await {
            Ok(()) => {
                failures = Failures::default();
                if delay(Timestamp::now(), client.validity(), failures).is_zero() {
                    // Use the backoff for repeated failures, or the next order would follow immediately.
                    failures.counted = QUICK_RETRIES + 1;
                    let domains = client.acme.domains.join(" ");
                    tracing::warn!(
                        domains,
                        "the new certificate is already due for renewal: check the system clock"
                    );
                }
            }
            Err(error) => {
                failures.count(&error);
                let wait = delay(Timestamp::now(), client.validity(), failures);
                let (failures, retry_in_seconds) = (failures.counted, wait.as_secs());
                let error = client.describe(&error);
                let domains = client.acme.domains.join(" ");
                let served = client.validity().map_or_else(
                    || "no connection over TLS is possible until one succeeds".to_owned(),
                    |(_, not_after)| {
                        let verb = if not_after < Timestamp::now() { "expired at" } else { "is valid until" };
                        format!("still serving the certificate that {verb} {not_after:.0}")
                    },
                );
                tracing::warn!(%error, domains, failures, retry_in_seconds, "certificate order failed; will retry; {served}");
            }
        }
    }
}

/// Counts the certificate orders that have failed since the last success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Failures {
    /// Failures that the authority may count towards its rate limits.
    counted: u32,
    /// Orders with a rejected nonce. Clients are expected to retry these (RFC 8555 §6.5), so they do not
    /// cause [`SLOW_RETRY`].
    bad_nonces: u32,
}

impl Failures {
    fn count(&mut self, error: &OrderError) {
        let count = if error.is(BAD_NONCE) { &mut self.bad_nonces } else { &mut self.counted };
        *count = count.saturating_add(1);
    }
}

/// The wait before the next order: until a third of the certificate's lifetime is left (zero if that has
/// passed, or without a certificate), or the backoff after failures, which is at least [`SLOW_RETRY`] after
/// more than [`QUICK_RETRIES`] counted ones.
fn delay(now: Timestamp, validity: Option<(Timestamp, Timestamp)>, failures: Failures) -> Duration {
    if let Some(doublings) = failures.counted.saturating_add(failures.bad_nonces).checked_sub(1) {
        let backoff = Duration::from_secs(1 << doublings.min(MAX_DOUBLINGS));
        return if failures.counted > QUICK_RETRIES { backoff.max(SLOW_RETRY) } else { backoff };
    }
    let Some((not_before, not_after)) = validity else { return Duration::ZERO };
    let renewal = not_after - not_after.duration_since(not_before) / 3;
    Duration::try_from(renewal.duration_since(now)).unwrap_or_default()
}

/// The reason why a certificate order failed, and the step that failed.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {cause}")]
struct OrderError {
    step: &'static str,
    cause: Error,
}

impl OrderError {
    fn new(step: &'static str, cause: impl Into<String>) -> Self {
        Self { step, cause: Error::Other(cause.into().into()) }
    }

    /// Whether the authority responded with a problem of this type.
    fn is(&self, problem_type: &str) -> bool {
        matches!(&self.cause, Error::Api(problem) if problem.r#type.as_deref() == Some(problem_type))
    }
}

/// Returns a function that adds the step to an error from the ACME library.
fn at(step: &'static str) -> impl Fn(Error) -> OrderError {
    move |cause| OrderError { step, cause }
}

/// The state that all orders share.
struct Client {
    acme: Acme,
    http: Http,
    cache: AcmeCache,
    /// The account's credentials as JSON. Kept in memory as well, because the cache file may not be writable.
    account: Mutex<Option<String>>,
    challenges: Arc<Challenges>,
    current: Arc<CurrentCertificate>,
}

impl Client {
    /// Creates the cache folder if it is missing, and loads the account if it is stored.
    fn open(acme: Acme, roots: Option<&ExtraRoots>, current: Arc<CurrentCertificate>) -> io::Result<Self> {
        let cache =
            AcmeCache::open(&acme.cache, &acme.domains, acme.contact_url().as_slice(), &acme.directory)?;
        let account = Mutex::new(cache.load_account(&acme.directory));
        Ok(Self { http: Http::new(roots), acme, cache, account, challenges: Arc::default(), current })
    }

    /// Serves the cached certificate if there is one, even if it has expired. If it cannot be used, logs why.
    fn use_cached_certificate(&self) {
        match std::fs::read(&self.cache.certificate).map(|pem| ServerCertificate::parse(&pem, &pem)) {
            Ok(Ok(certificate)) => {
                let (domains, not_after) = (self.acme.domains.join(" "), certificate.not_after);
                self.current.replace(certificate);
                tracing::info!(domains, %not_after, "using the cached certificate");
            }
            Ok(Err(defect)) => {
                let file = self.cache.certificate.display();
                tracing::warn!(%file, %defect, "the cached certificate cannot be used; will order a new one");
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let file = self.cache.certificate.display();
                tracing::warn!(%file, %error, "could not read the cached certificate; will order a new one");
            }
        }
    }

    /// The beginning and the end of the current certificate's validity; `None` without a certificate.
    fn validity(&self) -> Option<(Timestamp, Timestamp)> {
        self.current.get().map(|certificate| (certificate.not_before, certificate.not_after))
    }

    /// Orders a certificate within [`ORDER_TIMEOUT`], serves it and stores it. Returns a panic as an error.
    /// Drops the challenges, and forgets an account that the authority does not know.
    async fn obtain(self: Arc<Self>) -> Result<(), OrderError> {
        let order = timeout(ORDER_TIMEOUT, panics::catch_async(Part::Certificate, self.order()));
        let result = match order.await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => Err(OrderError::new("order", panic.to_string())),
            Err(_) => Err(OrderError::new("order", format!("timed out after {} s", ORDER_TIMEOUT.as_secs()))),
        };
        self.challenges.clear();
        if result.as_ref().is_err_and(|error| error.is(ACCOUNT_DOES_NOT_EXIST)) {
            // Forget the account, so that the next order creates a new one.
            *self.account.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        self.install(&result?)
    }

    /// Serves a new certificate, then stores it: a full disk must not prevent its use, so a failure to store
    /// it is only logged. Fails if the certificate cannot be used.
    fn install(&self, pem: &str) -> Result<(), OrderError> {
        let certificate = ServerCertificate::parse(pem.as_bytes(), pem.as_bytes())
            .map_err(|defect| OrderError::new("new certificate", defect.to_string()))?;
        let not_after = certificate.not_after;
        self.current.replace(certificate);
        let domains = self.acme.domains.join(" ");
        tracing::info!(domains, %not_after, "the certificate authority issued a certificate");
        match cache::replace_file(&self.cache.certificate, pem) {
            Ok(()) => tracing::info!(domains, "certificate stored"),
            Err(error) => {
                let file = self.cache.certificate.display();
                tracing::warn!(%file, %error, "could not store the new certificate; it is in use, but a restart will order another one");
            }
        }
        Ok(())
    }

    /// Orders a certificate, and creates the account first if there is none. Returns the certificate's new
    /// private key and its chain as PEM.
    async fn order(&self) -> Result<String, OrderError> {
        panics::inject("acme", "");
        let account = self.load_or_create_account().await?;
        let identifiers: Vec<_> = self.acme.domains.iter().cloned().map(Identifier::Dns).collect();
        let mut order = account.new_order(&NewOrder::new(&identifiers)).await.map_err(at("new order"))?;
        self.respond_to_challenges(&mut order).await?;
        match order.poll_ready(&POLLING).await {
            Ok(OrderStatus::Ready) => {}
            Ok(_) => {
                return Err(validation_error(
                    &mut order,
                    Error::Other("the authority rejected the order and gives no reason".into()),
                )
                .await);
            }
            Err(error @ Error::Api(_)) => return Err(validation_error(&mut order, error).await),
            Err(error) => return Err(at("validation")(error)),
        }
        let key = order.finalize().await.map_err(at("finalization"))?;
        let chain = order.poll_certificate(&POLLING).await.map_err(at("issuance"))?;
        Ok(format!("{key}\n{chain}"))
    }

    /// The stored account or, if its credentials are missing or unreadable, a new one, for which the client
    /// accepts the authority's terms of service. A new account replaces the stored one; a failure to store it
    /// is only logged.
    async fn load_or_create_account(&self) -> Result<Account, OrderError> {
        let builder = Account::builder_with_http(Box::new(self.http.clone()));
        let stored = self.account.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(credentials) = stored.as_deref().and_then(|json| serde_json::from_str(json).ok()) {
            return builder.from_credentials(credentials).await.map_err(at("directory"));
        }
        let contact = self.acme.contact_url();
        let new_account = NewAccount {
            contact: &contact.as_deref().into_iter().collect::<Vec<_>>(),
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let created = builder.create(&new_account, self.acme.directory.clone(), None).await;
        let (account, credentials) = created.map_err(at("new account"))?;
        let json = serde_json::to_string(&credentials).map_err(|error| at("new account")(error.into()))?;
        match cache::replace_file(&self.cache.account, &json) {
            Ok(()) => tracing::info!("ACME account stored"),
            Err(error) => {
                let file = self.cache.account.display();
                tracing::warn!(%file, %error, "could not store the ACME account; a restart will create a new one");
            }
        }
        *self.account.lock().unwrap_or_else(PoisonError::into_inner) = Some(json);
        Ok(account)
    }

    /// For each name that the authority has not validated yet, prepares the response to the challenge and
    /// asks the authority to validate the name. Fails at the first such name that is not pending, was not
    /// ordered or has no TLS-ALPN-01 challenge.
    async fn respond_to_challenges(&self, order: &mut Order) -> Result<(), OrderError> {
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(at("authorization"))?;
            match authorization.status {
                AuthorizationStatus::Pending => {}
                AuthorizationStatus::Valid => continue,
                status => {
                    let cause = format!(
                        "the authorization of {} has the status {status:?}",
                        authorization.identifier()
                    );
                    return Err(OrderError::new("authorization", cause));
                }
            }
            let mut challenge = authorization.challenge(ChallengeType::TlsAlpn01).ok_or_else(|| {
                OrderError::new(
                    "authorization",
                    "the authority does not offer TLS-ALPN-01, which is the only supported challenge",
                )
            })?;
            let Identifier::Dns(name) = challenge.identifier().identifier else {
                return Err(OrderError::new("authorization", "its identifier is not a DNS name"));
            };
            if !self.acme.domains.contains(name) {
                let cause = format!("it is for `{name}`, which was not ordered");
                return Err(OrderError::new("authorization", cause));
            }
            let inserted = self.challenges.insert(name, challenge.key_authorization().digest().as_ref());
            inserted.map_err(|error| OrderError::new("challenge certificate", error.to_string()))?;
            challenge.set_ready().await.map_err(at("challenge"))?;
        }
        Ok(())
    }

    /// The text of an error for the log: cut to [`MAX_ERROR_CHARS`], and without the contact address.
    fn describe(&self, error: &OrderError) -> String {
        let mut text = error.to_string();
        if !self.acme.email.is_empty() {
            // The authority may quote the contact address in an error.
            text = text.replace(&self.acme.email, "(tls.acme_email)");
        }
        text.chars().take(MAX_ERROR_CHARS).collect()
    }
}

/// The first reason that the authority reports for a failed validation; `otherwise` if it reports none.
async fn validation_error(order: &mut Order, otherwise: Error) -> OrderError {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if let Ok(state) = authorization.refresh().await
            && let Some(problem) = state.challenges.iter().find_map(|challenge| challenge.error.clone())
        {
            return OrderError::new("validation", format!("{}: {problem}", state.identifier()));
        }
    }
    at("validation")(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acme(folder: &std::path::Path) -> Acme {
        Acme {
            domains: vec!["www.example.com".into()],
            email: "hello@example.com".into(),
            directory: "https://acme.example.net/dir".into(),
            ca_file: None,
            cache: folder.join("data/acme"),
        }
    }

    fn client(folder: &std::path::Path) -> Client {
        Client::open(acme(folder), None, Arc::default()).expect("the cache folder can be created")
    }

    fn certificate() -> String {
        let made = rcgen::generate_simple_self_signed(["www.example.com".to_owned()]).expect("a certificate");
        format!("{}\n{}", made.signing_key.serialize_pem(), made.cert.pem())
    }

    fn failures(counted: u32, bad_nonces: u32) -> Failures {
        Failures { counted, bad_nonces }
    }

    #[test]
    fn a_new_certificate_is_served_at_once_and_after_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = client(folder.path());
        first.use_cached_certificate();
        assert!(first.validity().is_none());
        first.install(&certificate()).expect("it can be used");
        assert!(first.validity().is_some());
        let second = client(folder.path());
        second.use_cached_certificate();
        assert_eq!(second.validity(), first.validity());
    }

    #[test]
    fn a_certificate_that_cannot_be_stored_is_served() {
        let folder = tempfile::tempdir().expect("a folder");
        let client = client(folder.path());
        std::fs::remove_dir(folder.path().join("data/acme")).expect("it is empty");
        client.install(&certificate()).expect("it can be used");
        assert!(client.validity().is_some());
    }

    #[test]
    fn an_unusable_certificate_does_not_replace_the_one_in_use() {
        let folder = tempfile::tempdir().expect("a folder");
        let client = client(folder.path());
        client.install(&certificate()).expect("it can be used");
        let before = client.validity();
        let (one, other) = (certificate(), certificate());
        let at = |pem: &str| pem.find("-----BEGIN CERTIFICATE").expect("a certificate");
        let mismatched = format!("{}{}", &one[..at(&one)], &other[at(&other)..]);
        for pem in ["", "no PEM", &one[at(&one)..], &one[..at(&one)], &mismatched] {
            assert!(client.install(pem).is_err());
            assert_eq!(client.validity(), before);
        }
    }

    #[test]
    fn an_order_is_due_when_a_third_of_the_lifetime_is_left() {
        let time = |text: &str| text.parse::<Timestamp>().expect("a time");
        let validity = Some((time("2026-01-01T00:00:00Z"), time("2026-04-01T00:00:00Z")));
        let wait = |now: &str| delay(time(now), validity, Failures::default());
        assert_eq!(wait("2026-01-01T00:00:00Z"), Duration::from_hours(60 * 24));
        assert_eq!(wait("2026-03-01T23:59:59Z"), Duration::from_secs(1));
        assert_eq!(wait("2026-03-02T00:00:00Z"), Duration::ZERO);
        assert_eq!(wait("2026-05-01T00:00:00Z"), Duration::ZERO);
        assert_eq!(delay(time("2026-01-01T00:00:00Z"), None, Failures::default()), Duration::ZERO);
        let endless = Some((Timestamp::MIN, Timestamp::MAX));
        assert_eq!(delay(Timestamp::MAX, endless, Failures::default()), Duration::ZERO);
        let reversed = Some((Timestamp::MAX, Timestamp::MIN));
        assert_eq!(delay(Timestamp::MAX, reversed, Failures::default()), Duration::ZERO);
    }

    #[test]
    fn retries_are_quick_at_first_and_slow_later() {
        let now = Timestamp::UNIX_EPOCH;
        let validity = Some((Timestamp::UNIX_EPOCH, Timestamp::MAX));
        for (failures, seconds) in [
            (failures(1, 0), 1),
            (failures(2, 0), 2),
            (failures(3, 0), 4),
            (failures(4, 0), 1800),
            (failures(11, 0), 1800),
            (failures(12, 0), 2048),
            (failures(17, 0), 65_536),
            (failures(u32::MAX, u32::MAX), 65_536),
            // After a rejected nonce, the order is retried soon, but the wait grows if every nonce is
            // rejected.
            (failures(0, 1), 1),
            (failures(2, 3), 16),
            (failures(0, 40), 65_536),
        ] {
            let expected = Duration::from_secs(seconds);
            assert_eq!(delay(now, None, failures), expected, "{failures:?}");
            assert_eq!(delay(now, validity, failures), expected, "a failed renewal: {failures:?}");
        }
    }

    #[test]
    fn an_authority_is_not_asked_more_often_than_it_allows() {
        // Public authorities permit five failures per hour.
        let mut at = Duration::ZERO;
        let mut attempts = vec![at];
        for counted in 1..40 {
            at += delay(Timestamp::UNIX_EPOCH, None, failures(counted, 0));
            attempts.push(at);
        }
        for (number, begin) in attempts.iter().enumerate() {
            let within =
                attempts[number..].iter().filter(|at| **at < *begin + Duration::from_hours(1)).count();
            assert!(within <= 5, "{within} within the hour after {begin:?}");
        }
    }

    #[test]
    fn a_rejected_nonce_does_not_count_as_a_failure() {
        let problem = |problem_type: &str| {
            let json = serde_json::json!({ "type": problem_type, "detail": "rejected" });
            at("new order")(Error::Api(serde_json::from_value(json).expect("a problem")))
        };
        let mut counts = Failures::default();
        counts.count(&problem(BAD_NONCE));
        counts.count(&problem("urn:ietf:params:acme:error:rateLimited"));
        counts.count(&OrderError::new("directory", BAD_NONCE));
        assert_eq!(counts, failures(2, 1));
    }

    #[test]
    fn an_error_in_the_log_is_short_and_has_no_address() {
        let folder = tempfile::tempdir().expect("a folder");
        let long = format!("invalid contact hello@example.com {}", "ä".repeat(1000));
        let text = client(folder.path()).describe(&OrderError::new("new account", long));
        assert!(text.starts_with("new account: invalid contact (tls.acme_email) ä"), "{text}");
        assert_eq!(text.chars().count(), MAX_ERROR_CHARS);
    }

    #[tokio::test]
    async fn an_order_that_panics_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        // The library panics on a directory that is not a URL; the configuration rejects such a value.
        let unusable = Acme { directory: "no URL".into(), ..acme(folder.path()) };
        let client = Arc::new(Client::open(unusable, None, Arc::default()).expect("a folder"));
        let error = client.obtain().await.expect_err("there is no authority");
        assert!(error.to_string().starts_with("order: a defect in frontdesk"), "{error}");
    }
}
