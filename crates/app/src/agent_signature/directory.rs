//! Agents' key directories (draft-ietf-webbotauth-httpsig-protocol-00 §5.5): fetched on demand, and cached
//! for as long as the response permits, within bounds. Stale keys remain in use for up to a day more.
//!
//! Clients control neither what is fetched nor how often: only configured directories are fetched, each at
//! most once a minute and never twice at the same time, with backoff after failures. A directory's own
//! signature is ignored, because TLS already authenticates the directory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::error::SignatureError;
use super::key::AgentKey;
use super::replays::Replays;
use super::signature::Claim;
use frontdesk_fetch::{FetchClient, FetchResponse, Url};
use frontdesk_process::panics::{self, Part};

/// The path of the directory on every host (RFC 8615).
pub const WELL_KNOWN: &str = "/.well-known/http-message-signatures-directory";

/// The media type of a directory, a JWK set.
pub const MEDIA_TYPE: &str = "application/http-message-signatures-directory+json";

/// The lifetime of fetched keys in seconds, unless `Cache-Control` sets another.
const USUAL_LIFETIME: i64 = 60 * 60;
/// The minimum lifetime of fetched keys in seconds, even with a smaller `max-age`.
const SHORTEST_LIFETIME: i64 = 5 * 60;
/// The maximum lifetime of fetched keys in seconds, even with a larger `max-age`.
const LONGEST_LIFETIME: i64 = 24 * 60 * 60;

/// The maximum time that stale keys remain in use while fetches fail, in seconds.
const LONGEST_STALE: i64 = 24 * 60 * 60;

/// The minimum wait between two fetches, in seconds; each failed fetch after the first doubles it, up to
/// [`LONGEST_PAUSE`].
const PAUSE: i64 = 60;
const LONGEST_PAUSE: i64 = 60 * 60;

/// The time limit for a whole fetch, in addition to the limits on its phases.
const LONGEST_FETCH: Duration = Duration::from_secs(15);

/// A key directory that the operator allows.
pub(super) struct Directory {
    url: Url,
    state: Mutex<DirectoryState>,
    /// Notifies waiting requests after each fetch.
    fetched: watch::Sender<()>,
}

/// The cached keys, the fetch schedule and the used signatures. Times are seconds since 1970.
#[derive(Debug, Default)]
struct DirectoryState {
    /// The keys of the last successful fetch; `None` before the first one. May be empty.
    keys: Option<Arc<[AgentKey]>>,
    fresh_until: i64,
    next_fetch: i64,
    failures: u32,
    is_fetching: bool,
    replays: Replays,
}

/// All keys in a directory, including the requested one; an error if the requested key is not available.
type KnownKeys = Result<Arc<[AgentKey]>, SignatureError>;

impl Directory {
    /// The directory at [`WELL_KNOWN`] on the host of `url`.
    pub(super) fn new(url: &Url) -> Directory {
        Directory {
            url: url.with_target(WELL_KNOWN),
            state: Mutex::default(),
            fetched: watch::Sender::new(()),
        }
    }

    /// The host of the directory, with the port unless it is the scheme's default.
    pub(super) fn name(&self) -> String {
        self.url.authority()
    }

    /// Whether a `Signature-Agent` value refers to this directory, by its origin or its full URL.
    pub(super) fn matches_url(&self, text: &str) -> bool {
        Url::parse(text).is_ok_and(|url| {
            let is_same = (url.scheme(), url.host(), url.port())
                == (self.url.scheme(), self.url.host(), self.url.port());
            is_same && matches!(url.target(), "/" | WELL_KNOWN)
        })
    }

    /// Returns the cached keys if one has this thumbprint, and starts a fetch in the background if they are
    /// stale and a fetch is due. Otherwise waits until `deadline` for a running fetch, or for a new one if
    /// that is due, and looks again. Returns the error at once if no fetch is running or due.
    pub(super) async fn keys_with(
        self: &Arc<Self>,
        client: &Arc<FetchClient>,
        key_id: &str,
        now: Timestamp,
        deadline: Instant,
    ) -> KnownKeys {
        let (known, mut fetched) = {
            let mut state = self.lock_state();
            let (known, starts_fetch) = state.look_up(key_id, now);
            let fetched = self.fetched.subscribe();
            if starts_fetch {
                let attempt = DirectoryFetch { directory: Arc::clone(self), began: now, result: None };
                tokio::spawn(attempt.run(Arc::clone(client)));
            }
            (known, fetched)
        };
        if let Some(known) = known {
            return known;
        }
        let _ = timeout_at(deadline, fetched.changed()).await;
        self.lock_state().cached_keys(key_id, now)
    }

    /// Records the use of a valid signature, or returns an error if it was used before ([`Replays::record`]).
    pub(super) fn record(&self, claim: &Claim, now: Timestamp) -> Result<(), SignatureError> {
        self.lock_state().replays.record(&claim.key_id, claim.identity(), claim.expires, now)
    }

    fn lock_state(&self) -> MutexGuard<'_, DirectoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DirectoryState {
    /// Looks up a key. Returns the cached result, or `None` to wait for a fetch, and whether the caller must
    /// start one, which is then marked as running.
    fn look_up(&mut self, key_id: &str, now: Timestamp) -> (Option<KnownKeys>, bool) {
        let known = self.cached_keys(key_id, now);
        let is_enough = known.is_ok() && now.as_second() < self.fresh_until;
        let starts_fetch = !is_enough && !self.is_fetching && now.as_second() >= self.next_fetch;
        self.is_fetching |= starts_fetch;
        let must_wait = known.is_err() && self.is_fetching;
        ((!must_wait).then_some(known), starts_fetch)
    }

    /// The cached keys: [`SignatureError::Unavailable`] if none were fetched or they are too old,
    /// [`SignatureError::Key`] if they do not include `key_id`.
    fn cached_keys(&self, key_id: &str, now: Timestamp) -> KnownKeys {
        let is_usable = now.as_second() < self.fresh_until.saturating_add(LONGEST_STALE);
        let keys = self.keys.as_ref().filter(|_| is_usable).ok_or(SignatureError::Unavailable)?;
        let is_known = keys.iter().any(|key| key.id() == key_id);
        is_known.then(|| Arc::clone(keys)).ok_or(SignatureError::Key)
    }

    /// Ends the fetch that began at `now`, and sets the earliest time of the next one. Replaces the keys and
    /// their lifetime in seconds; a failed fetch (`None`) keeps the old keys, and each failure after the
    /// first doubles the wait, from [`PAUSE`] up to [`LONGEST_PAUSE`].
    fn finish_fetch(&mut self, result: Option<(Vec<AgentKey>, i64)>, now: Timestamp) {
        let now = now.as_second();
        self.is_fetching = false;
        if let Some((keys, lifetime)) = result {
            self.keys = Some(keys.into());
            self.fresh_until = now.saturating_add(lifetime);
            self.next_fetch = now.saturating_add(PAUSE);
            self.failures = 0;
        } else {
            let pause = (PAUSE << self.failures.min(6)).min(LONGEST_PAUSE);
            self.next_fetch = now.saturating_add(pause);
            self.failures += 1;
        }
    }
}

/// A fetch of a directory. Dropping it records the result and wakes the waiting requests, even if the task
/// is canceled.
struct DirectoryFetch {
    directory: Arc<Directory>,
    began: Timestamp,
    result: Option<(Vec<AgentKey>, i64)>,
}

impl DirectoryFetch {
    /// Fetches the directory's keys. A panic is logged and counts as a failed fetch.
    async fn run(mut self, client: Arc<FetchClient>) {
        if let Err(panic) = panics::catch_async(Part::AgentKeys, self.fetch_keys(client)).await {
            let directory = self.directory.name();
            tracing::error!(
                directory,
                "{panic} ended the fetch of an agent key directory; will retry when a request needs it"
            );
        }
    }

    /// Fetches the directory's keys. [`Drop`] then replaces the old keys with them, even if none is usable;
    /// after a failed fetch, it keeps the old ones. Logs a warning if the fetch fails, takes longer than
    /// [`LONGEST_FETCH`], or finds no usable key.
    async fn fetch_keys(&mut self, client: Arc<FetchClient>) {
        let directory = self.directory.name();
        panics::inject("agent-key", &directory);
        let accept = [(ACCEPT, HeaderValue::from_static(MEDIA_TYPE))];
        let request = client.send(Method::GET, &self.directory.url, accept, "");
        let fetch = async { parse_response(&request.await.map_err(|failed| failed.sentence)?) };
        let result = timeout(LONGEST_FETCH, fetch).await;
        match result.unwrap_or_else(|_| Err(format!("timed out after {} s", LONGEST_FETCH.as_secs()))) {
            Ok(found) => {
                if found.0.is_empty() {
                    tracing::warn!(
                        directory,
                        "an agent key directory has no usable key; its agents are not recognized"
                    );
                }
                self.result = Some(found);
            }
            Err(error) => {
                tracing::warn!(directory, %error, "failed to load an agent key directory, so its agents may not be recognized; will retry when a request needs it");
            }
        }
    }
}

impl Drop for DirectoryFetch {
    fn drop(&mut self) {
        self.directory.lock_state().finish_fetch(self.result.take(), self.began);
        self.directory.fetched.send_replace(());
    }
}

/// Returns the usable keys in a directory's response, which may be none, and their lifetime in seconds, or a
/// description of the fault. The example keys of RFC 9421 are not usable.
fn parse_response(answer: &FetchResponse) -> Result<(Vec<AgentKey>, i64), String> {
    if answer.status != StatusCode::OK {
        return Err(format!("the response status is {}", answer.status.as_u16()));
    }
    let media_type = answer.headers.get(CONTENT_TYPE).map_or(&b""[..], http::HeaderValue::as_bytes);
    let media_type = media_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if !media_type.eq_ignore_ascii_case(MEDIA_TYPE.as_bytes()) {
        return Err(format!("the Content-Type is not {MEDIA_TYPE}"));
    }
    if !answer.is_whole {
        return Err("the response is too long, too slow or cut off".to_owned());
    }
    let mut keys = AgentKey::read_set(&answer.body).ok_or("the response is not a JWK set")?;
    keys.retain(|key| !key.is_example());
    Ok((keys, key_lifetime(&answer.headers)))
}

/// The smallest `max-age` in seconds (RFC 9111 §5.2.2.1), within bounds; [`USUAL_LIFETIME`] without one. The
/// lower bound for `no-store`, `no-cache` and an unreadable `max-age`.
fn key_lifetime(headers: &HeaderMap) -> i64 {
    let lines = headers.get_all(CACHE_CONTROL).iter().filter_map(|line| line.to_str().ok());
    let mut lifetime = None;
    for directive in lines.flat_map(|line| line.split(',')).map(str::trim) {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        let seconds = match name.to_ascii_lowercase().as_str() {
            "no-store" | "no-cache" => 0,
            "max-age" => value.trim_matches('"').parse().unwrap_or(0),
            _ => continue,
        };
        lifetime = Some(lifetime.map_or(seconds, |lifetime: i64| lifetime.min(seconds)));
    }
    lifetime.unwrap_or(USUAL_LIFETIME).clamp(SHORTEST_LIFETIME, LONGEST_LIFETIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &str = "PbjnghElN1h35NS4yP5R8F0svEmVKVErChiZu1bQbD8";
    const JSON: &str =
        r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"JP0Ha7uUG3k-y-4vrJdovTHAo6IjqNPFTLNeFKGN0F4"}]}"#;

    /// The public part of `test-key-ed25519` (RFC 9421 appendix B.1.4).
    const EXAMPLE_X: &str = "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs";

    #[test]
    fn the_first_request_starts_the_only_fetch_and_others_wait() {
        let mut state = DirectoryState::default();
        decides(&mut state, KNOWN, 0, "Wait", true);
        decides(&mut state, KNOWN, 1, "Wait", false);
        decides(&mut state, "other", 1, "Wait", false);
        state.finish_fetch(Some(fetched(300)), at(0));
        decides(&mut state, KNOWN, 2, "Use", false);
    }

    #[test]
    fn an_unknown_key_causes_one_fetch_a_minute() {
        let mut state = DirectoryState::default();
        state.finish_fetch(Some(fetched(3600)), at(0));
        decides(&mut state, "other", 59, "Refuse(Key)", false);
        decides(&mut state, "other", 60, "Wait", true);
        state.finish_fetch(Some(fetched(3600)), at(60));
        decides(&mut state, "other", 119, "Refuse(Key)", false);
        decides(&mut state, KNOWN, 119, "Use", false);
    }

    #[test]
    fn stale_keys_are_used_for_a_limited_time() {
        let mut state = DirectoryState::default();
        state.finish_fetch(Some(fetched(300)), at(0));
        decides(&mut state, KNOWN, 299, "Use", false);
        decides(&mut state, KNOWN, 300, "Use", true);
        state.finish_fetch(None, at(300));
        decides(&mut state, KNOWN, 301, "Use", false);
        decides(&mut state, KNOWN, 360, "Use", true);
        state.finish_fetch(None, at(360));
        decides(&mut state, KNOWN, 300 + LONGEST_STALE - 1, "Use", true);
        decides(&mut state, KNOWN, 300 + LONGEST_STALE, "Wait", false);
        state.finish_fetch(None, at(300 + LONGEST_STALE));
        decides(&mut state, KNOWN, 301 + LONGEST_STALE, "Refuse(Unavailable)", false);
    }

    #[test]
    fn fetches_of_a_failing_directory_back_off() {
        let mut state = DirectoryState::default();
        let mut now = 0;
        for pause in [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600] {
            decides(&mut state, KNOWN, now, "Wait", true);
            state.finish_fetch(None, at(now));
            decides(&mut state, KNOWN, now + pause - 1, "Refuse(Unavailable)", false);
            now += pause;
        }
    }

    fn good() -> FetchResponse {
        FetchResponse {
            status: StatusCode::OK,
            headers: [(CONTENT_TYPE, MEDIA_TYPE.parse().unwrap())].into_iter().collect(),
            body: JSON.into(),
            is_whole: true,
            time_to_header: Duration::ZERO,
        }
    }

    #[test]
    fn an_incomplete_or_invalid_directory_is_an_error() {
        assert!(
            parse_response(&good())
                .is_ok_and(|(keys, lifetime)| keys.len() == 1 && lifetime == USUAL_LIFETIME)
        );
        let mut with_parameter = good();
        with_parameter.headers.insert(CONTENT_TYPE, format!("{MEDIA_TYPE}; charset=utf-8").parse().unwrap());
        assert!(parse_response(&with_parameter).is_ok());
        let mut html = good();
        html.headers.insert(CONTENT_TYPE, "text/html".parse().unwrap());
        fails(&html, "is not application/http-message");
        fails(&FetchResponse { status: StatusCode::FOUND, ..good() }, "status is 302");
        fails(&FetchResponse { is_whole: false, ..good() }, "cut off");
        fails(&FetchResponse { body: b"{}".to_vec(), ..good() }, "not a JWK set");
    }

    #[test]
    fn a_directory_without_usable_keys_replaces_those_before() {
        let example = JSON.replace("JP0Ha7uUG3k-y-4vrJdovTHAo6IjqNPFTLNeFKGN0F4", EXAMPLE_X);
        let mut state = DirectoryState::default();
        state.finish_fetch(Some(fetched(3600)), at(0));
        decides(&mut state, KNOWN, 60, "Use", false);
        for body in [r#"{"keys":[]}"#, r#"{"keys":[{"kty":"oct","k":"AAAA"}]}"#, &example] {
            let found = parse_response(&FetchResponse { body: body.into(), ..good() }).unwrap();
            assert!(found.0.is_empty(), "{body}");
            state.finish_fetch(Some(found), at(60));
            decides(&mut state, KNOWN, 119, "Refuse(Key)", false);
        }
        decides(&mut state, KNOWN, 120, "Wait", true);
    }

    #[test]
    fn lifetimes_stay_within_bounds() {
        for (lines, expected) in [
            (&[][..], USUAL_LIFETIME),
            (&["public"], USUAL_LIFETIME),
            (&["max-age=7200"], 7200),
            (&["public, Max-Age=\"7200\""], 7200),
            (&["max-age=7200", "max-age=3600"], 3600),
            (&["max-age=0"], SHORTEST_LIFETIME),
            (&["max-age=-1"], SHORTEST_LIFETIME),
            (&["max-age=99999999999999999999"], SHORTEST_LIFETIME),
            (&["max-age=31536000"], LONGEST_LIFETIME),
            (&["no-store, max-age=7200"], SHORTEST_LIFETIME),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(CACHE_CONTROL, line.parse().unwrap());
            }
            assert_eq!(key_lifetime(&headers), expected, "{lines:?}");
        }
    }

    #[test]
    fn a_directory_is_identified_by_its_origin() {
        let directory = Directory::new(&Url::parse("https://agent.example.com").unwrap());
        for (text, expected) in [
            ("https://agent.example.com", true),
            ("https://agent.example.com/", true),
            ("https://Agent.Example.com:443", true),
            ("https://agent.example.com/.well-known/http-message-signatures-directory", true),
            ("https://agent.example.com/other", false),
            ("https://agent.example.com/?x", false),
            ("https://agent.example.com:8443", false),
            ("https://other.example.com", false),
            ("http://agent.example.com", false),
            ("https://agent.example.com.", false),
            ("agent.example.com", false),
            ("data:application/json,{}", false),
            ("", false),
        ] {
            assert_eq!(directory.matches_url(text), expected, "{text}");
        }
        assert_eq!(directory.name(), "agent.example.com");
    }

    fn fetched(lifetime: i64) -> (Vec<AgentKey>, i64) {
        (AgentKey::read_set(JSON.as_bytes()).unwrap(), lifetime)
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn decides(state: &mut DirectoryState, key_id: &str, now: i64, expected: &str, starts_fetch: bool) {
        let (known, found) = state.look_up(key_id, at(now));
        let shown = match known {
            None => "Wait".to_owned(),
            Some(Ok(_)) => "Use".to_owned(),
            Some(Err(why)) => format!("Refuse({why:?})"),
        };
        assert_eq!((&*shown, found), (expected, starts_fetch), "{key_id} at {now}");
    }

    fn fails(answer: &FetchResponse, part: &str) {
        let fault = parse_response(answer).unwrap_err();
        assert!(fault.contains(part), "{fault}");
    }
}
