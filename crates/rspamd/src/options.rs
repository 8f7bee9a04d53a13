//! The address of rspamd, its password and the time limit.

use std::fmt;
use std::time::Duration;

use frontdesk_fetch::Url;
use http::HeaderValue;

/// The options of an rspamd server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RspamdOptions {
    /// The server's URL, without a path.
    pub url: Url,
    pub password: Option<Password>,
    /// The time limit of a request. The delivery of a submission waits this long for an opinion.
    pub timeout: Duration,
}

/// The value of the header `Password`. Its debug output hides the value.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(HeaderValue);

/// The fault of a value, or a description of the valid ones, in words for the operator.
pub type OptionsError = String;

impl Password {
    /// Fails unless the text consists of visible ASCII characters, spaces and tabs. The error describes a
    /// valid value as a noun phrase.
    pub fn parse(text: &str) -> Result<Password, OptionsError> {
        let expected = "a password of visible ASCII characters";
        let mut value = HeaderValue::from_str(text).map_err(|_| expected.to_owned())?;
        value.to_str().map_err(|_| expected.to_owned())?;
        value.set_sensitive(true);
        Ok(Password(value))
    }

    pub(crate) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

impl RspamdOptions {
    /// Parses the URL of a server. `http` is permitted only for this machine, because submissions are
    /// personal data. The error is a clause for the operator.
    pub fn parse_url(text: &str) -> Result<Url, OptionsError> {
        let url = Url::parse(text)?;
        if url.target() == "/" {
            return Ok(url);
        }
        Err("it must have no path".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_of_this_machine_or_encrypted_and_has_no_path() {
        for text in ["http://127.0.0.1:11333", "http://localhost:11333/", "https://rspamd.example.com"] {
            assert!(RspamdOptions::parse_url(text).is_ok(), "{text}");
        }
        for text in ["http://rspamd.example.com", "http://127.0.0.1:11333/checkv2", "127.0.0.1:11333", ""] {
            assert!(RspamdOptions::parse_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_password_is_shown_nowhere() {
        let password = Password::parse("open sesame").unwrap();
        assert!(!format!("{password:?} {:?}", password.header()).contains("sesame"));
        assert!(Password::parse("a\r\nb").is_err() && Password::parse("é").is_err());
    }
}
