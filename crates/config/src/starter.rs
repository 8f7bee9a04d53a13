//! Renders two files from the declarations of the keys: the short `frontdesk.toml` of a new site, and the
//! complete one that `frontdesk config --all` prints.

use std::fmt::Write as _;

use super::reader::{Effect, Setting};

/// The maximum width of comments, in columns.
const WIDTH: usize = 118;
/// Keys and values of channels are padded to this width, so that the comments after them line up.
const CHANNEL_COMMENTS: usize = 45;

/// A configuration with `[words]` and a channel of each kind, so that `config --all` documents their keys.
pub(super) const CHANNELS: &str = r#"
[words]
copy_markdown = "Copy this page"
[[channel]]
name = "mail"
kind = "smtp"
[[channel]]
name = "crm"
kind = "webhook"
[[channel]]
name = "box"
kind = "maildir"
"#;

/// A configuration with the channel that the starter file shows.
pub(super) const STARTER_CHANNEL: &str = "[[channel]]\nname = \"mail\"\nkind = \"smtp\"\n";

const COMPLETE_HEADER: &str = "frontdesk.toml: every configuration key with its default.

A flag overrides the environment, and the environment overrides this file. Each key except the tables `site.footer`, \
`site.extra`, `words` and `redirects` can be set in the environment: `server.listen` as FRONTDESK_SERVER__LISTEN, or FRONTDESK_SERVER__LISTEN_FILE \
with the name of a file that holds the value. `frontdesk config` shows the effective settings and where each \
comes from.

A running server reads this file again on SIGHUP. Changes to keys marked \"(restart)\" need a restart.";

const STARTER_HEADER: &str =
    "The settings that most sites change. `frontdesk config --all` prints every key with its default \
and explains it: copy from there what else you need. `frontdesk config` shows the effective settings.

A running server reads this file again on SIGHUP. Changes to keys marked \"(restart)\" need a restart.";

const STARTER_CHANNELS_HEADER: &str = "Submissions are stored in the inbox. A channel also delivers them, for example to a \
mailbox (docs/pages/deliveries.md).";

const COMPLETE_CHANNELS_HEADER: &str = "Channels: any number of destinations for submissions. Without one, \
submissions stay in the inbox. Each channel needs a `name` and a `kind`. Deliveries belong to the channel's \
name: if you rename a channel, its pending deliveries wait for a channel with the old name. A new channel \
receives only submissions that arrive after it is added. In the environment, a channel's name is part of the variable: \
FRONTDESK_CHANNEL__MAIL__PASSWORD, or …__PASSWORD_FILE.";

/// Renders the output of `config --all`, which has every key. `settings` must come from [`CHANNELS`].
pub(super) fn render_complete_file(settings: &[Setting]) -> String {
    let settings: Vec<_> = settings.iter().map(|setting| (setting, setting.key.documentation)).collect();
    render(&settings, COMPLETE_HEADER, COMPLETE_CHANNELS_HEADER)
}

/// Renders the file of a new site from the settings of a configuration with [`STARTER_CHANNEL`]: only the
/// keys with `is_in_starter_file`, each with the first sentence of its documentation.
pub(super) fn render_starter_file(settings: &[Setting]) -> String {
    let shown = settings.iter().filter(|setting| setting.key.is_in_starter_file);
    let settings: Vec<_> =
        shown.map(|setting| (setting, first_sentence(setting.key.documentation))).collect();
    render(&settings, STARTER_HEADER, STARTER_CHANNELS_HEADER)
}

/// The text through the first period that is followed by a space, or else the whole text.
fn first_sentence(text: &str) -> &str {
    text.find(". ").map_or(text, |end| &text[..=end])
}

/// Renders settings with their documentation: first the keys under their tables, then `channels_header` and
/// the keys of channels. Each key has its example or, without one, its value. All keys are commented out,
/// except for preset ones outside of channels. A documented key outside of channels is marked if it needs a
/// restart.
fn render(settings: &[(&Setting, &str)], header: &str, channels_header: &str) -> String {
    let mut text = format_comment(header) + "\n";
    let (channels, settings): (Vec<_>, Vec<_>) =
        settings.iter().partition(|(setting, _)| setting.key.name.starts_with("channel."));
    let mut table = "";
    for (setting, documentation) in settings {
        let key = &setting.key;
        let (of, last) = key.name.rsplit_once('.').unwrap_or(("", &key.name));
        let is_own_table =
            key.example.is_some_and(|example| example.starts_with(&format!("[{}]\n", key.name)));
        if of != table && !is_own_table {
            let _ = writeln!(text, "\n[{of}]");
            table = of;
        }
        let is_table = key.example.is_some_and(|example| example.starts_with("[["));
        if is_table || is_own_table {
            text += "\n";
        }
        let needs_restart = key.effect == Effect::Restart && !documentation.is_empty();
        let restart = if needs_restart { " (restart)" } else { "" };
        text += &format_comment(&format!("{documentation}{restart}"));
        let value = key.example.unwrap_or(&setting.value);
        let _ = match key.is_preset {
            false if is_own_table => writeln!(text, "# {}", value.replace('\n', "\n# ")),
            true if is_table => writeln!(text, "{value}"),
            true => writeln!(text, "{last} = {value}"),
            false => writeln!(text, "# {last} = {value}"),
        };
    }
    text += "\n";
    text += &format_comment(channels_header);
    for (setting, documentation) in channels {
        let key = &setting.key;
        let last = key.name.rsplit('.').next().unwrap_or_default();
        if last == "name" {
            text += "#\n#   [[channel]]\n";
        }
        let line = format!("{last} = {}", key.example.unwrap_or(&setting.value));
        match documentation {
            "" => text += &format!("#   {line}\n"),
            documentation => text += &format!("#   {line:<CHANNEL_COMMENTS$}# {documentation}\n"),
        }
    }
    text + "#\n# `frontdesk doctor DIR` sends a test message through each channel and reports problems.\n"
}

/// Formats text as a comment, wrapped to [`WIDTH`] columns. Keeps paragraphs separate.
fn format_comment(text: &str) -> String {
    let mut comment = String::new();
    for paragraph in text.lines() {
        let mut line = "#".to_owned();
        for word in paragraph.split_whitespace() {
            if line.chars().count() + 1 + word.chars().count() > WIDTH {
                comment += &line;
                comment += "\n";
                "#".clone_into(&mut line);
            }
            line += " ";
            line += word;
        }
        comment += &line;
        comment += "\n";
    }
    comment
}
