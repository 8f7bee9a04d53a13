//! One run of the canary: sends a test submission to each form through the public address and a message
//! through each channel, and checks pages, certificates, this machine and its clock.

#![expect(clippy::disallowed_methods, reason = "a run is timed")]

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::Method;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use uuid::Uuid;

use crate::clock_check::ClockReading;
use crate::form_page_check::{self, PageCheck};
use crate::options::{CanaryOptions, TimeLimits};
use crate::report::{Outcome, Report, Step, StepResult};
use crate::response_diagnosis::{self, Judgment, SubmissionFacts};
use crate::site_forms::SiteForms;
use crate::{certificate_check, clock_check, mailbox, ping, proxy_detection, server_checks};
use frontdesk_deliver::canary::{CanaryLink, ChannelReport, ReceiverTime, Receivers, message};
use frontdesk_fetch::url::UrlScheme;
use frontdesk_fetch::{FetchClient, FetchError, FetchPhase, FetchResponse, FetchTimeouts, NameResolver, Url};
use frontdesk_forms::Form;
use frontdesk_inbox::store::{CanaryKey, CanaryProgress, Hash, Store, StoreError};
use frontdesk_process::panics::{self, Panic, Part};

/// The time between two checks of the mailbox, and the longest time between two checks of the inbox.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Mails whose files are older than the run by up to this time are examined too, because another machine's
/// clock may have set the times of the files.
const CLOCK_TOLERANCE: Duration = Duration::from_mins(1);

/// The inputs of one canary run.
pub(crate) struct Run<'a> {
    pub options: &'a CanaryOptions,
    pub store: &'a Store,
    pub link: &'a Arc<CanaryLink>,
    pub limits: TimeLimits,
    pub id: Uuid,
    /// The report of the previous run.
    pub previous: Option<&'a Report>,
}

/// A test submission and the response to it. `answer` is `None` if the submission was not sent.
struct Submission {
    form: &'static Form,
    nonce: Hash,
    answer: Option<Result<FetchResponse, FetchError>>,
    took: Duration,
}

impl Run<'_> {
    /// Runs all steps, and records the test submissions in the inbox until the run has ended. Does not
    /// store the report. Fails if the database cannot be used, because nothing else can be checked then. A
    /// run that fails or is dropped leaves its records to the maintenance.
    pub async fn report(&self) -> Result<Report, StoreError> {
        let started_at = Timestamp::now();
        let new = |form| Submission { form, nonce: CanaryKey::nonce(), answer: None, took: Duration::ZERO };
        let mut submissions: Vec<Submission> = self.options.forms.iter().copied().map(new).collect();
        let sent: Vec<(Hash, &'static str)> =
            submissions.iter().map(|submission| (submission.nonce, submission.form.name)).collect();
        let nonces: Vec<Hash> = sent.iter().map(|(nonce, _)| *nonce).collect();
        self.store.change(move |tx| tx.begin_canary_run(&sent, started_at)).await?;
        let mut steps = self.check_public_address(&mut submissions).await?;
        let forms = self.find_forms().await;
        steps.extend(self.check_pages(&steps, &forms).await);
        let (channels, readings) = self.check_channels().await;
        steps.extend(channels);
        steps.extend(server_checks::run(&self.options.server_checks, self.limits.request).await);
        self.check_clock_and_ping(&mut steps, readings).await;
        self.store.change(move |tx| tx.end_canary_run(&nonces)).await?;
        Ok(Report { started_at, ended_at: Timestamp::now(), steps, form_pages: forms.known })
    }

    /// Sends the test submissions, one after another, and waits until each accepted one is processed. If the
    /// public address cannot be resolved or reached, stops sending, and reports the submission that failed
    /// and the remaining ones as skipped. Continues after an error on an established connection. If
    /// `base_url` is invalid, returns only a failed DNS step.
    async fn check_public_address(
        &self,
        submissions: &mut [Submission],
    ) -> Result<Vec<StepResult>, StoreError> {
        let url = match Url::parse_unencrypted(&self.options.base_url) {
            Ok(url) => url,
            Err(fault) => {
                let text = format!("`base_url` cannot be requested: {fault}");
                return Ok(vec![step(
                    Step::Dns,
                    &self.options.base_url,
                    Outcome::Failed,
                    text,
                    Duration::ZERO,
                )]);
            }
        };
        let (resolved, addresses) = self.resolve(&url).await;
        let mut steps = vec![resolved];
        if steps[0].outcome == Outcome::Failed {
            steps.extend(skipped(&[Step::Connect, Step::Tls], url.scheme(), &url));
            steps.extend(submissions.iter().map(|submission| not_sent(submission.form)));
            return Ok(steps);
        }
        let (key, client) = (self.store.canary_key().await?, self.client());
        for submission in &mut *submissions {
            let began = Instant::now();
            let answer = self.send(&client, &url, &key, submission).await;
            submission.took = began.elapsed();
            let is_unreachable = matches!(&answer, Err(error) if error.phase != FetchPhase::Exchange);
            submission.answer = Some(answer);
            if is_unreachable {
                break;
            }
        }
        let host = url.host().to_string();
        let answers = submissions.iter().filter_map(|submission| submission.answer.as_ref()?.as_ref().ok());
        let headers = answers.map(|response| &response.headers).next();
        steps[0].text = proxy_detection::describe(&addresses, proxy_detection::is_local, headers);
        let judged: Vec<(Judgment, &Submission)> = self.judge_all(submissions, &key, &host).await?;
        steps.extend(connection_steps(&judged, &url));
        for (judgment, submission) in judged {
            let Judgment { step: found, outcome, text } = judgment;
            let name = submission.form.name;
            if found != Step::Form {
                steps.push(not_sent(submission.form));
                continue;
            }
            steps.push(step(Step::Form, name, outcome, text, submission.took));
            if outcome == Outcome::Ok {
                steps.push(self.await_processing(submission).await?);
            }
        }
        let unsent = submissions.iter().filter(|submission| submission.answer.is_none());
        steps.extend(unsent.map(|submission| not_sent(submission.form)));
        Ok(steps)
    }

    /// Finds forms on the site's own pages. If the search panics, keeps the last report's `form_pages`.
    async fn find_forms(&self) -> SiteForms {
        let (site, forms) = (self.options.site.clone(), self.options.forms.clone());
        let origin = self.options.base_url.clone();
        let known = self.previous.map(|report| report.form_pages.clone()).unwrap_or_default();
        let kept = known.clone();
        let find =
            move || panics::catch(Part::Background, || SiteForms::find(&site, &forms, &origin, &known));
        match tokio::task::spawn_blocking(find).await {
            Ok(Ok(found)) => found,
            _ => SiteForms { known: kept, ..SiteForms::default() },
        }
    }

    /// Checks the certificate of the public address, and compares the pages that show a form. Skips both if
    /// an earlier step could not reach the address. In any case, adds the faults of this server's own pages,
    /// and checks the certificate of the inbox's domain if there is one. Returns nothing if `base_url` is
    /// invalid.
    async fn check_pages(&self, earlier: &[StepResult], own: &SiteForms) -> Vec<StepResult> {
        let Ok(url) = Url::parse_unencrypted(&self.options.base_url) else { return Vec::new() };
        let client = self.client().with_max_body(form_page_check::MAX_BYTES);
        let check = PageCheck {
            client: &client,
            url: &url,
            origin: &self.options.base_url,
            forms: &self.options.forms,
            site: &self.options.site,
            deadline: Instant::now() + self.limits.pages,
        };
        let is_unreachable = |step: &StepResult| {
            matches!(step.step, Step::Dns | Step::Connect | Step::Tls) && step.outcome == Outcome::Failed
        };
        let mut steps = Vec::new();
        if earlier.iter().any(is_unreachable) {
            steps.extend((url.scheme() == UrlScheme::Https).then(|| certificate_check::skipped(&url)));
            steps.extend(check.skip_all(own));
        } else {
            steps.extend(certificate_check::check(&client, &url).await);
            steps.extend(check.run(own).await);
        }
        steps.extend(own.faults.iter().cloned());
        let inbox_url = self.options.inbox_url.as_ref().and_then(|url| Url::parse(url).ok());
        if let Some(url) = inbox_url {
            steps.extend(certificate_check::check(&client, &url).await);
        }
        steps
    }

    /// Adds the step of the clock. Unless that step or an earlier one fails, first requests
    /// `canary.ping_url`, whose response may have another time to compare, and adds its step after the
    /// clock's.
    async fn check_clock_and_ping(&self, steps: &mut Vec<StepResult>, mut readings: Vec<ClockReading>) {
        let is_synchronized = clock_check::is_synchronized();
        let first = clock_check::judge(&readings, is_synchronized);
        let is_good = is_ok(steps) && first.outcome != Outcome::Failed;
        let mut pinged = None;
        if let (Some(url), true) = (&self.options.ping_url, is_good) {
            let (step, reading) = ping::ping(url, &ping::client(self.options)).await;
            readings.extend(reading);
            pinged = Some(step);
        }
        steps.push(clock_check::judge(&readings, is_synchronized));
        steps.extend(pinged);
    }

    /// Resolves the host of the public address within `limits.request`, with this machine's resolver. Returns
    /// the step's result and the addresses; the list is empty if the step failed, also because the name has
    /// no address.
    async fn resolve(&self, url: &Url) -> (StepResult, Vec<IpAddr>) {
        let (host, began) = (url.host().to_string(), Instant::now());
        let found = timeout(self.limits.request, NameResolver::System.resolve(url.host(), url.port())).await;
        let fault = match found {
            Ok(Ok(found)) if !found.is_empty() => {
                let text = proxy_detection::describe(&found, proxy_detection::is_local, None);
                return (step(Step::Dns, &host, Outcome::Ok, text, began.elapsed()), found);
            }
            Ok(Ok(_)) => response_diagnosis::describe_unresolved(&host, "it has none", false),
            Ok(Err(error)) => response_diagnosis::describe_unresolved(&host, &error.to_string(), false),
            Err(_) => {
                let limit = format!("waited {} s", self.limits.request.as_secs());
                response_diagnosis::describe_unresolved(&host, &limit, true)
            }
        };
        (step(Step::Dns, &host, Outcome::Failed, fault, began.elapsed()), Vec::new())
    }

    /// The client for the public address and the inbox's domain. Each phase of a request has the limit
    /// `limits.request`; private addresses are permitted.
    fn client(&self) -> FetchClient {
        let limit = self.limits.request;
        let timeouts =
            FetchTimeouts { resolve: limit, connect: limit, tls: limit, answer: limit, body: limit };
        // Allow private addresses (`true`): on this machine, the site's name may resolve to one.
        FetchClient::new(NameResolver::System, true, self.options.extra_roots.as_ref(), timeouts)
    }

    /// POSTs the form's example values as JSON to its endpoint. The token that marks a test submission is
    /// in a header and in the body.
    async fn send(
        &self,
        client: &FetchClient,
        url: &Url,
        key: &CanaryKey,
        submission: &Submission,
    ) -> Result<FetchResponse, FetchError> {
        let form = submission.form;
        let token = key.issue(form.name, &submission.nonce, Timestamp::now());
        let mut value = HeaderValue::from_str(&token).map_err(|error| error.to_string())?;
        value.set_sensitive(true);
        let headers = [
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (ACCEPT, HeaderValue::from_static("application/json")),
            (CACHE_CONTROL, HeaderValue::from_static("no-store")),
            (HeaderName::from_static(CanaryKey::HEADER), value),
        ];
        client.send(Method::POST, &url.with_target(form.path), headers, example_body(form, &token)).await
    }

    /// Judges the answer to each submission that was sent, and whether the inbox has accepted it. Leaves
    /// out submissions that were not sent.
    async fn judge_all<'s>(
        &self,
        submissions: &'s [Submission],
        key: &CanaryKey,
        host: &str,
    ) -> Result<Vec<(Judgment, &'s Submission)>, StoreError> {
        let mut judged = Vec::new();
        for submission in submissions {
            let judgment = match &submission.answer {
                Some(Ok(response)) => {
                    let (path, proof) = (submission.form.path, key.proof(&submission.nonce));
                    let is_accepted = self.progress(submission).await?.is_accepted;
                    response_diagnosis::judge(response, SubmissionFacts { path, proof: &proof, is_accepted })
                }
                Some(Err(error)) => response_diagnosis::judge_error(error, host),
                None => continue,
            };
            judged.push((judgment, submission));
        }
        Ok(judged)
    }

    /// Asks the inbox whether it has accepted and processed a test submission.
    async fn progress(&self, submission: &Submission) -> Result<CanaryProgress, StoreError> {
        let nonce = submission.nonce;
        self.store.change(move |tx| tx.canary_progress(&nonce)).await
    }

    /// Waits until an accepted submission has been processed. The step fails after `limits.processing`.
    async fn await_processing(&self, submission: &Submission) -> Result<StepResult, StoreError> {
        let (began, name) = (Instant::now(), submission.form.name);
        let mut processed = self.store.events().processed.subscribe();
        loop {
            if self.progress(submission).await?.is_processed {
                let text = "the test submission was stored and processed";
                return Ok(step(Step::Intake, name, Outcome::Ok, text, began.elapsed()));
            }
            if began.elapsed() > self.limits.processing {
                let text = format!(
                    "the test submission was accepted, but not processed within {} s: see the log for errors in the processing of submissions",
                    self.limits.processing.as_secs()
                );
                return Ok(step(Step::Intake, name, Outcome::Failed, text, began.elapsed()));
            }
            let _ = timeout(CHECK_INTERVAL, processed.changed()).await;
        }
    }

    /// Sends a message through each channel, and waits for the mail in the mailbox. The steps are in the
    /// order of the channels' names. If not all channels respond within `limits.channels`, adds a failed
    /// step without a name; if no channel is configured, a skipped one. Also returns the times that
    /// receivers have stated.
    async fn check_channels(&self) -> (Vec<StepResult>, Vec<ClockReading>) {
        let (began, started) = (Instant::now(), SystemTime::now());
        let notice = message(self.id, self.options.site(), Timestamp::now());
        let mut reports = self.link.send(notice, Receivers::All);
        let (mut steps, mut mails, mut readings) = (Vec::new(), Vec::new(), Vec::new());
        let deadline = tokio::time::Instant::now() + self.limits.channels;
        let is_stuck = loop {
            match tokio::time::timeout_at(deadline, reports.recv()).await {
                Ok(Some(report)) => {
                    mails.extend((report.is_mail && report.result.is_ok()).then(|| report.name.clone()));
                    readings.extend(report.times.map(|ReceiverTime { theirs, ours }| {
                        let server = format!("the receiver of channel {}", report.name);
                        ClockReading { server, theirs, ours }
                    }));
                    steps.push(self.channel_step(report));
                }
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        if is_stuck {
            let text = format!(
                "not all channels have responded within {} s: if this persists, the delivery worker is stuck; restart the server, and \
                 report it",
                self.limits.channels.as_secs()
            );
            steps.push(step(Step::Channel, "", Outcome::Failed, text, began.elapsed()));
        } else if steps.is_empty() {
            let text = "no channel is configured: submissions stay in the inbox";
            steps.push(step(Step::Channel, "", Outcome::Skipped, text, Duration::ZERO));
        }
        steps.sort_by(|a, b| a.subject.cmp(&b.subject));
        steps.extend(self.check_mailbox(&mails, started).await);
        (steps, readings)
    }

    /// The step of a channel: failed if the channel did not accept the message. Without a mailbox, the text
    /// for a mail channel says that the arrival of the mail is not known.
    fn channel_step(&self, report: ChannelReport) -> StepResult {
        let ChannelReport { name, is_mail, result, took, .. } = report;
        let (outcome, text) = match result {
            Ok(reply) if is_mail && self.options.mailbox.is_none() => (
                Outcome::Ok,
                format!(
                    "the mail server accepted the message ({reply}); without `canary.mailbox`, it is not known whether it arrives"
                ),
            ),
            Ok(reply) => (Outcome::Ok, format!("the message was accepted ({reply})")),
            Err(fault) => (Outcome::Failed, fault),
        };
        step(Step::Channel, &name, outcome, text, took)
    }

    /// Waits for the run's mail in `canary.mailbox`, and removes a copy there if it can. The step is skipped
    /// if no channel has sent a mail, or if a search panics. It fails after `limits.mailbox`, and at once if
    /// the mailbox cannot be read. `None` if no mailbox is configured. `accepted` names the channels that
    /// have sent a mail.
    async fn check_mailbox(&self, accepted: &[String], started: SystemTime) -> Option<StepResult> {
        let path = self.options.mailbox.as_ref()?;
        let (subject, began) = (path.display().to_string(), Instant::now());
        if accepted.is_empty() {
            let text = "no channel has sent a mail";
            return Some(step(Step::Mailbox, &subject, Outcome::Skipped, text, Duration::ZERO));
        }
        let since = started - CLOCK_TOLERANCE;
        loop {
            let (path, run) = (path.clone(), self.id);
            let take = move || panics::catch(Part::Background, || mailbox::take_mail(&path, run, since));
            // The task is cancelled only if the server stops.
            let found = tokio::task::spawn_blocking(take).await.unwrap_or(Ok(Ok(false)));
            let (outcome, text) = match judge_mailbox(found) {
                Some(judged) => judged,
                None if began.elapsed() > self.limits.mailbox => (
                    Outcome::Failed,
                    format!(
                        "the mail was accepted by the server (channel {}), but did not arrive within {}: check the mail server's log, \
                         its queue, spam filters and forwarding rules",
                        accepted.join(", "),
                        minutes(self.limits.mailbox)
                    ),
                ),
                None => {
                    tokio::time::sleep(CHECK_INTERVAL).await;
                    continue;
                }
            };
            return Some(step(Step::Mailbox, &subject, outcome, text, began.elapsed()));
        }
    }
}

/// The result of searching the mailbox, even if the search panicked. `None` if the mail is not there yet.
fn judge_mailbox(found: Result<io::Result<bool>, Panic>) -> Option<(Outcome, String)> {
    Some(match found {
        Ok(Ok(false)) => return None,
        Ok(Ok(true)) => (Outcome::Ok, "the mail arrived".to_owned()),
        Ok(Err(error)) => (
            Outcome::Failed,
            format!(
                "the mailbox cannot be read ({error}): `canary.mailbox` must be a Maildir that the user of this process can read"
            ),
        ),
        Err(panic) => (Outcome::Skipped, format!("not known, because of {panic}")),
    })
}

fn step(step: Step, subject: &str, outcome: Outcome, text: impl Into<String>, took: Duration) -> StepResult {
    StepResult { step, subject: subject.to_owned(), outcome, text: text.into(), took }
}

fn not_sent(form: &Form) -> StepResult {
    step(Step::Form, form.name, Outcome::Skipped, "not sent, because of the fault above", Duration::ZERO)
}

/// A skipped result for each connection step, without [`Step::Tls`] for an `http` URL.
fn skipped(steps: &[Step], scheme: UrlScheme, url: &Url) -> Vec<StepResult> {
    let is_tried = |kind: &&Step| **kind != Step::Tls || scheme == UrlScheme::Https;
    let skip = |kind: &Step| {
        step(
            *kind,
            &url.host_and_port(),
            Outcome::Skipped,
            "not tried, because of the fault above",
            Duration::ZERO,
        )
    };
    steps.iter().filter(is_tried).map(skip).collect()
}

/// The steps of connection and TLS: failed if a submission failed there, otherwise successful. TLS is skipped
/// after a failed connection, and left out for an `http` URL. If no connection failed but the name did not
/// resolve for a submission, a failed DNS step replaces both. Empty if no submission was sent.
fn connection_steps(judged: &[(Judgment, &Submission)], url: &Url) -> Vec<StepResult> {
    let subject = url.host_and_port();
    let mut steps = Vec::new();
    for (kind, success) in [(Step::Connect, "a connection was made"), (Step::Tls, "the certificate is valid")]
    {
        if kind == Step::Tls && url.scheme() == UrlScheme::Http || judged.is_empty() {
            continue;
        }
        if let Some((judgment, submission)) = judged.iter().find(|(judgment, _)| judgment.step == kind) {
            steps.push(step(kind, &subject, judgment.outcome, judgment.text.clone(), submission.took));
            if kind == Step::Connect {
                steps.extend(skipped(&[Step::Tls], url.scheme(), url));
            }
            break;
        }
        let failed_earlier = judged.iter().find(|(judgment, _)| judgment.step == Step::Dns);
        if let Some((judgment, submission)) = failed_earlier {
            steps.push(step(Step::Dns, &subject, judgment.outcome, judgment.text.clone(), submission.took));
            break;
        }
        steps.push(step(kind, &subject, Outcome::Ok, success, Duration::ZERO));
    }
    steps
}

/// A JSON request body with the token and with an example value for each of the form's main fields.
fn example_body(form: &Form, token: &str) -> String {
    let values = form.fields.iter().map(|field| (field.name.to_owned(), json!(field.example_value())));
    let mut body: Map<String, Value> = values.collect();
    body.insert(CanaryKey::MEMBER.to_owned(), token.into());
    Value::Object(body).to_string()
}

/// Whether no step failed. Warnings and skipped steps do not count.
fn is_ok(steps: &[StepResult]) -> bool {
    steps.iter().all(|step| step.outcome != Outcome::Failed)
}

/// Formats a time limit: `5 minutes`, or `90 s` if it is at most one minute or not in whole minutes.
fn minutes(limit: Duration) -> String {
    match limit.as_secs() {
        seconds if seconds % 60 == 0 && seconds > 60 => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frontdesk_deliver::canary::CanaryLink;
    use frontdesk_inbox::testing::inbox::{Options, TestInbox};

    #[tokio::test]
    async fn a_worker_that_does_not_respond_fails_the_step() {
        let folder = tempfile::tempdir().unwrap();
        let inbox = TestInbox::open(&Options::new(folder.path().join("inbox.sqlite"))).unwrap();
        let options = CanaryOptions::default();
        // No delivery worker receives the messages that are sent through this link.
        let link = Arc::new(CanaryLink::default());
        let channels = Duration::from_millis(20);
        let limits = TimeLimits { channels, ..TimeLimits::of_interval(Duration::from_hours(1)) };
        let run =
            Run { options: &options, store: &inbox, link: &link, limits, id: Uuid::nil(), previous: None };
        let (steps, _) = run.check_channels().await;
        let [step] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!((step.step, step.outcome), (Step::Channel, Outcome::Failed));
        assert!(step.text.contains("the delivery worker is stuck"), "{}", step.text);
        inbox.close();
    }

    #[test]
    fn a_search_of_the_mailbox_that_panics_is_not_a_missing_mail() {
        let check = |found, expected: Option<(Outcome, &str)>| {
            let judged = judge_mailbox(found);
            let judged = judged.as_ref().map(|(outcome, text)| (*outcome, &text[..text.len().min(16)]));
            assert_eq!(judged, expected);
        };
        check(Ok(Ok(false)), None);
        check(Ok(Ok(true)), Some((Outcome::Ok, "the mail arrived")));
        check(Ok(Err(io::ErrorKind::NotFound.into())), Some((Outcome::Failed, "the mailbox cann")));
        let panicked = panics::catch(Part::Background, || -> io::Result<bool> { panic!("a defect") });
        check(panicked, Some((Outcome::Skipped, "not known, becau")));
    }

    #[test]
    fn the_body_has_the_example_values_and_the_token() {
        let body: Value =
            serde_json::from_str(&example_body(*frontdesk_forms::CONTACT, "the-token")).unwrap();
        assert_eq!(body["desk_canary"], "the-token");
        assert!(frontdesk_forms::parse(*frontdesk_forms::CONTACT, body.to_string().as_bytes()).is_ok());
    }

    #[test]
    fn a_run_ends_before_the_next_one_is_due_unless_they_are_close() {
        for hours in [1, 6, 24] {
            let every = Duration::from_hours(hours);
            assert!(TimeLimits::of_interval(every).run() < every / 2, "{hours}");
        }
    }
}
