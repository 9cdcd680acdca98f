//! The results as a JUnit file.

use std::fmt::Write as _;

use crate::cases::GROUPS;
use crate::runner::{Ended, Finished};

/// Returns the file: a suite for each group.
pub(crate) fn junit(finished: &[Finished]) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for group in GROUPS {
        let cases: Vec<&Finished> =
            finished.iter().filter(|one| one.listed.group.name == group.name).collect();
        if cases.is_empty() {
            continue;
        }
        let count = |ended| cases.iter().filter(|one| one.ended == ended).count();
        let _ = writeln!(
            xml,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">",
            group.name,
            cases.len(),
            count(Ended::Failed),
            count(Ended::Skipped)
        );
        cases.iter().for_each(|one| case(&mut xml, one));
        xml.push_str("  </testsuite>\n");
    }
    xml + "</testsuites>\n"
}

fn case(xml: &mut String, one: &Finished) {
    let _ = write!(
        xml,
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\"",
        one.listed.group.name,
        one.listed.case.name,
        one.took.as_secs_f64()
    );
    let detail = escaped(&one.detail);
    let _ = match one.ended {
        Ended::Passed => writeln!(xml, "/>"),
        Ended::Failed => writeln!(
            xml,
            ">\n      <failure message=\"{detail}\">{}: {}\n{}</failure>\n    </testcase>",
            escaped(one.listed.case.clause),
            detail,
            escaped(&one.talk)
        ),
        Ended::Skipped => {
            writeln!(xml, ">\n      <skipped message=\"{detail}\"/>\n    </testcase>")
        }
    };
}

/// Escapes text for XML: five characters have escapes, and most control characters are not allowed.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            '\n' | '\t' => out.push(character),
            character if character.is_control() => out.push('?'),
            character => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_xml() {
        assert_eq!(
            escaped("a<\"b\" & 'c'>\n\u{7}"),
            "a&lt;&quot;b&quot; &amp; &apos;c&apos;&gt;\n?"
        );
    }
}
