//! `http` redirects to the same page over `https`.

use crate::client::redirect_target;
use crate::rule::{Findings, Fix, Platform, Rule, Severity};
use crate::rule_group::Group;
use crate::survey::Survey;

pub(super) static RULE: Rule = Rule {
    id: "http-not-redirected",
    group: Group::Basics,
    severity: Severity::Advice,
    checks: "The `http` URL of an `https` page redirects to that page.",
    matters: "People type URLs without a scheme, and old links begin with `http`. A redirect to the home \
              page loses the page that they wanted.",
    hurts: "People, who lose the page that they wanted, or whose traffic can be read.",
    fixes: &[
        Fix {
            platform: Platform::Any,
            text: "Redirect each `http` URL with 301 or 308 to the same path and query over `https`.",
        },
        Fix {
            platform: Platform::Nginx,
            text: "In the `server` block of port 80: `return 301 https://$host$request_uri;`",
        },
        Fix {
            platform: Platform::Apache,
            text: "In the virtual host of port 80: `Redirect permanent / https://www.example.com/`",
        },
        Fix {
            platform: Platform::Cloudflare,
            text: "Enable “Always Use HTTPS” (SSL/TLS, Edge Certificates).",
        },
        Fix { platform: Platform::Caddy, text: "Automatic for sites that are named by their domain." },
    ],
    check,
};

/// Reports the last response without TLS if it is a 2xx, an error other than 429, a redirect to `http`, or
/// one without a valid `Location`. A redirect of a path other than `/` to the path `/` over `https` is
/// broken; any other redirect to `https` is right, to any host and path.
fn check(survey: &Survey, findings: &mut Findings) {
    let (Some(first), Some(last)) = (survey.basics.without_tls.first(), survey.basics.without_tls.last())
    else {
        return;
    };
    let Some(response) = last.response() else { return };
    let asked = first.url();
    match redirect_target(last) {
        Some(target) if target.scheme() != "https" => {
            findings.report(
                &[first, last],
                format!("`http` redirects to {target}: redirect to the same page over `https`"),
            );
        }
        Some(target) if asked.path() != "/" && target.path() == "/" => {
            let message = format!(
                "`http` redirects {} to the home page: redirect to the same page over `https`",
                asked.path()
            );
            findings.report_as(Severity::Broken, &[first, last], message);
        }
        Some(_) => {}
        None if response.status.is_success() => {
            findings.report(&[first, last], "`http` serves the page: redirect to `https`");
        }
        None if response.status == 429 => {}
        None => {
            let lack = if response.status.is_redirection() { " without a valid `Location`" } else { "" };
            let message = format!("`http` returns {}{lack}: redirect to `https`", response.status);
            findings.report(&[first, last], message);
        }
    }
}
