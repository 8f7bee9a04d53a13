//! Writes the text format of Prometheus, version 0.0.4: metric families with HELP, TYPE and samples.

use std::fmt::{self, Display, Write as _};

/// The value of `Content-Type`.
pub(in crate::web) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The type of a metric family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Buckets, a sum and a count.
    Histogram,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// The text of an exposition.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    text: String,
}

impl Exposition {
    /// Starts a family; its samples follow.
    pub(super) fn family(&mut self, name: &'static str, kind: Kind, help: &str) -> Family<'_> {
        self.text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {}\n", kind.name()));
        Family { text: &mut self.text, name }
    }

    /// Writes a family with one sample without labels.
    pub(super) fn single(&mut self, name: &'static str, kind: Kind, help: &str, value: impl Display) {
        self.family(name, kind, help).sample(&[], value);
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// A family that receives samples.
#[derive(Debug)]
pub(super) struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl Family<'_> {
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.suffixed("", labels, value);
    }

    /// Writes a sample of a histogram: `_bucket`, `_sum` or `_count`.
    pub(super) fn suffixed(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(&format!("{}{suffix}", self.name));
        for (number, (name, value)) in labels.iter().enumerate() {
            let before = if number == 0 { '{' } else { ',' };
            self.text.push_str(&format!("{before}{name}=\"{}\"", Escaped(value)));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        self.text.push_str(&format!("{end} {value}\n"));
    }
}

/// A label value with backslashes, quotes and line feeds escaped.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\\' => f.write_str("\\\\"),
            '"' => f.write_str("\\\""),
            '\n' => f.write_str("\\n"),
            c => f.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped() {
        let mut out = Exposition::default();
        out.single("up_seconds", Kind::Gauge, "For how long.", 1.5);
        let mut family = out.family("sent_total", Kind::Counter, "How many.");
        family.sample(&[("channel", "a\"} 1\nb\\"), ("state", "x")], 7);
        assert_eq!(
            out.finish(),
            "# HELP up_seconds For how long.\n# TYPE up_seconds gauge\nup_seconds 1.5\n\
             # HELP sent_total How many.\n# TYPE sent_total counter\n\
             sent_total{channel=\"a\\\"} 1\\nb\\\\\",state=\"x\"} 7\n"
        );
    }
}
