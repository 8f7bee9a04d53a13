//! Looks at the certificates of the public address and of the inbox's domain, as visitors get them.

#![expect(clippy::disallowed_methods, reason = "steps are timed")]

use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::certificate::CertificateValidity;
use crate::report::{Outcome, Step, StepResult};
use crate::response_diagnosis;
use frontdesk_fetch::{FetchClient, FetchPhase, Url};

/// Judges the certificate at an `https` URL; `None` for an `http` URL. The step fails if the TLS handshake
/// fails. It is skipped if the certificate cannot be read, or if the name cannot be reached from here: it
/// may be a private one.
pub(crate) async fn check(client: &FetchClient, url: &Url) -> Option<StepResult> {
    let (subject, began) = (url.host_and_port(), Instant::now());
    let step = |outcome, text| StepResult {
        step: Step::Certificate,
        subject: subject.clone(),
        outcome,
        text,
        took: began.elapsed(),
    };
    Some(match client.certificate(url).await {
        Ok(None) => return None,
        Ok(Some(der)) => match CertificateValidity::of(&der) {
            Some(validity) => {
                StepResult { took: began.elapsed(), ..validity.step(&subject, Timestamp::now()) }
            }
            None => step(Outcome::Skipped, "the certificate cannot be read".to_owned()),
        },
        Err(error) if error.phase == FetchPhase::Tls => {
            step(Outcome::Failed, response_diagnosis::judge_error(&error, &url.host().to_string()).text)
        }
        Err(error) => {
            let fault = response_diagnosis::judge_error(&error, &url.host().to_string()).text;
            step(Outcome::Skipped, format!("not reached from this machine: {fault}"))
        }
    })
}

/// The result of a certificate step that is skipped because an earlier step failed.
pub(crate) fn skipped(url: &Url) -> StepResult {
    StepResult {
        step: Step::Certificate,
        subject: url.host_and_port(),
        outcome: Outcome::Skipped,
        text: "not checked, because of the fault above".to_owned(),
        took: Duration::ZERO,
    }
}
