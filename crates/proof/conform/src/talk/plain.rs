//! Descriptions of messages, shortened for a person: handles by number, times as numbers, and no
//! attribute that is not set.

/// Handles in the order of their first use: equal numbers are equal handles.
#[derive(Default)]
pub(super) struct Handles(Vec<String>);

impl Handles {
    fn number(&mut self, handle: &str) -> usize {
        let known = self.0.iter().position(|seen| seen == handle);
        1 + known.unwrap_or_else(|| {
            self.0.push(handle.to_owned());
            self.0.len() - 1
        })
    }
}

/// Returns the description without details that only a program needs.
pub(super) fn plain(described: &str, handles: &mut Handles) -> String {
    let mut text = each(described, "Time { seconds: ", " }", time);
    for name in ["FileId(", "FileSystemId(", "Cookie("] {
        text = each(&text, name, ")", ToOwned::to_owned);
    }
    text = each(&text, "Device { major: ", " }", |device| device.replace(", minor: ", ":"));
    text = each(&text, "SetAttributes { ", " }", set);
    each(&text, "Handle(", ")", |handle| format!("handle {}", handles.number(handle)))
}

/// Replaces all text between two marks, and the marks.
fn each(text: &str, open: &str, close: &str, mut what: impl FnMut(&str) -> String) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(open) {
        let Some((inside, behind)) = after.split_once(close) else {
            break;
        };
        out.push_str(before);
        // The end of a longer name does not match.
        if before.ends_with(char::is_alphanumeric) {
            out.push_str(&rest[before.len()..rest.len() - behind.len()]);
        } else {
            out.push_str(&what(inside));
        }
        rest = behind;
    }
    out + rest
}

/// Seconds and their parts as one number.
fn time(inside: &str) -> String {
    let parts = [(", nanoseconds: ", 9), (", microseconds: ", 6)];
    let found = parts.into_iter().find_map(|(name, digits)| {
        inside.split_once(name).map(|(seconds, part)| format!("{seconds}.{part:0>digits$}"))
    });
    found.unwrap_or_else(|| inside.to_owned())
}

/// The attributes that are set.
fn set(inside: &str) -> String {
    let is_set = |part: &&str| !part.ends_with(": None") && !part.ends_with(": Keep");
    let parts: Vec<&str> = inside.split(", ").filter(is_set).collect();
    if parts.is_empty() { "nothing set".to_owned() } else { format!("set {}", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_become_plain() {
        let mut handles = Handles::default();
        let mut plain = |text| plain(text, &mut handles);
        assert_eq!(
            plain("A { object: Handle(01), other: Handle(02), same: Handle(01) }"),
            "A { object: handle 1, other: handle 2, same: handle 1 }"
        );
        assert_eq!(
            plain("B { object: Handle(02), cookie: Cookie(7) }"),
            "B { object: handle 2, cookie: 7 }"
        );
        assert_eq!(plain("changed: Time { seconds: 7, nanoseconds: 5 }"), "changed: 7.000000005");
        assert_eq!(plain("Time { seconds: 7, microseconds: 50 }, x"), "7.000050, x");
        assert_eq!(plain("Device { major: 8, minor: 1 }"), "8:1");
        assert_eq!(
            plain("SetAttributes { mode: Some(0644), uid: None, accessed: Keep }"),
            "set mode: Some(0644)"
        );
        assert_eq!(plain("MyHandle(1) and Handle("), "MyHandle(1) and Handle(");
    }
}
