//! Why a submission was not accepted, and the response that says so.

use http::StatusCode;
use http::header::{ALLOW, HeaderValue, RETRY_AFTER};

use crate::metrics::SubmissionResult;
use crate::response::{HttpResponse, error};
use frontdesk_forms::{MAX_BODY_BYTES, Rejection};
use frontdesk_http::{ReadError, RequestId, X_REQUEST_ID};
use frontdesk_process::disk_space::SMALL_BODY_BYTES;

/// `Retry-After` in seconds for large submissions while disk space is low. The value is an estimate.
const LOW_DISK_RETRY_SECONDS: u64 = 600;

/// The reason why the response to a submission is not 200.
#[derive(Debug)]
pub(crate) enum FormRefusal {
    Method,
    /// The source or its network exceeds a rate limit. Contains the wait in seconds.
    TooMany(u64),
    /// The source or its network exceeds its byte budget. Contains the wait in seconds.
    OverBudget(u64),
    MediaType,
    /// The body is compressed with this content coding, but only uncompressed bodies are accepted.
    ContentCoding(&'static str),
    /// The request's headers do not show that the HTML form is on this site.
    OtherSite,
    Slow,
    Broken,
    TooLong,
    /// The body or some of its fields are invalid. Contains the message for the client.
    Invalid(String),
    /// The submission could not be stored. The log entry with this id gives the reason.
    NotStored(RequestId),
    /// The submission is large, and disk space is low. The log has an entry with this id.
    LowDisk(RequestId),
    /// The submission is stored, but no channel confirmed it in time. The log has an entry with this id.
    NotConfirmed(RequestId),
}

impl FormRefusal {
    /// The label in `/metrics`, and the status of the response.
    pub(super) fn outcome(&self) -> (SubmissionResult, StatusCode) {
        use SubmissionResult as Result;
        match self {
            Self::Method => (Result::Invalid, StatusCode::METHOD_NOT_ALLOWED),
            Self::MediaType | Self::ContentCoding(_) | Self::Invalid(_) => {
                (Result::Invalid, StatusCode::BAD_REQUEST)
            }
            Self::OtherSite => (Result::Invalid, StatusCode::FORBIDDEN),
            Self::TooMany(_) | Self::OverBudget(_) => (Result::Limited, StatusCode::TOO_MANY_REQUESTS),
            Self::Slow => (Result::Slow, StatusCode::REQUEST_TIMEOUT),
            Self::Broken => (Result::Broken, StatusCode::BAD_REQUEST),
            Self::TooLong => (Result::TooLarge, StatusCode::PAYLOAD_TOO_LARGE),
            Self::NotStored(_) => (Result::NotStored, StatusCode::INTERNAL_SERVER_ERROR),
            Self::LowDisk(_) => (Result::LowDisk, StatusCode::INTERNAL_SERVER_ERROR),
            Self::NotConfirmed(_) => (Result::NotConfirmed, StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    /// The response as JSON, with `Allow`, `Retry-After` or the request ID where the reason needs one.
    pub(crate) fn to_response(&self) -> HttpResponse {
        let mut response = error(self.outcome().1, &self.sentence());
        let headers = response.headers_mut();
        if matches!(self, Self::LowDisk(_)) {
            headers.insert(RETRY_AFTER, HeaderValue::from(LOW_DISK_RETRY_SECONDS));
        }
        match self {
            Self::Method => headers.insert(ALLOW, HeaderValue::from_static("POST")),
            Self::TooMany(seconds) | Self::OverBudget(seconds) => {
                headers.insert(RETRY_AFTER, HeaderValue::from(*seconds))
            }
            // Include the request ID, so that operators can find a reported failure in the log.
            Self::NotStored(id) | Self::LowDisk(id) | Self::NotConfirmed(id) => {
                headers.insert(X_REQUEST_ID, id.0.clone())
            }
            _ => None,
        };
        response
    }

    /// The message for the client: one or two sentences that say what is wrong and what to do.
    pub(crate) fn sentence(&self) -> String {
        let plural = |seconds: &u64| if *seconds == 1 { "" } else { "s" };
        let sentence = match self {
            Self::Method => "Only POST is accepted here, with a JSON object as the body.",
            Self::TooMany(seconds) => {
                &format!("Too many requests. Try again in {seconds} second{}.", plural(seconds))
            }
            Self::OverBudget(seconds) => &format!(
                "Too much data was sent from this address or its network today. Try again in {seconds} second{}, or send less.",
                plural(seconds)
            ),
            // Name only JSON, because the configuration decides whether HTML forms are accepted.
            Self::MediaType => {
                "The Content-Type is missing or not accepted. Send a JSON object as `application/json`."
            }
            Self::ContentCoding(coding) => &format!(
                "The body has the `Content-Encoding` `{coding}`, which is not accepted. Send it without compression."
            ),
            Self::OtherSite => {
                "HTML forms are accepted only from this site's pages: `Origin` or `Referer` must name this site, or `Sec-Fetch-Site` must be `same-origin`. Send JSON as `application/json` instead."
            }
            Self::Slow => "The body did not arrive in time.",
            Self::Broken => "The body ended before it was complete.",
            Self::TooLong => &format!(
                "The body must not be longer than {} KiB, counted after decoding.",
                MAX_BODY_BYTES / 1024
            ),
            Self::Invalid(sentence) => sentence,
            Self::NotStored(_) => "The submission could not be stored. Try again in a moment.",
            Self::LowDisk(_) => &format!(
                "There is too little space to store a submission of more than {} KiB, so this one was not stored. Send a \
                 shorter one, or try again later.",
                SMALL_BODY_BYTES / 1024
            ),
            Self::NotConfirmed(_) => {
                "The submission is stored but has not been delivered yet; delivery continues. Sending it again unchanged does not create a duplicate."
            }
        };
        sentence.to_owned()
    }
}

impl From<Rejection> for FormRefusal {
    fn from(rejection: Rejection) -> Self {
        Self::Invalid(rejection.to_string())
    }
}

impl From<ReadError> for FormRefusal {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::TooLong => Self::TooLong,
            ReadError::Slow => Self::Slow,
            ReadError::Broken => Self::Broken,
        }
    }
}
