//! Notifications as plain text for people, with control and invisible characters made visible.

use crate::notification::Notification;
use frontdesk_forms::FieldValue;
use frontdesk_forms::text::{visible, visible_lines};

/// The whole notification as plain text: title, sentences and fields.
pub(super) fn notification_text(notice: &Notification) -> String {
    let mut parts = vec![visible(&notice.title), details_text(notice)];
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

/// The notification as plain text without its title: sentences and fields.
pub(super) fn details_text(notice: &Notification) -> String {
    let lines: Vec<String> = notice.lines.iter().map(|line| visible_lines(line)).collect();
    let field = |(name, value): &(String, FieldValue)| {
        let value = visible_lines(&value.display());
        let gap = if value.contains('\n') { '\n' } else { ' ' };
        format!("{}{gap}{value}", notice.label_with_colon(name))
    };
    let fields: Vec<String> = notice.fields.iter().map(field).collect();
    let mut parts = vec![lines.join("\n"), fields.join("\n")];
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}
