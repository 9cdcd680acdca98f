//! A document in Markdown: its headings, its links, and its text as HTML.

use std::collections::BTreeSet;

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// A document.
pub(super) struct Document {
    /// The text of the first heading.
    pub(super) title: String,
    /// The names of the headings in links.
    pub(super) anchors: BTreeSet<String>,
    /// The targets of links and pictures.
    pub(super) links: Vec<Link>,
    events: Vec<Event<'static>>,
}

/// A link, and the line on which it begins, counted from 1.
pub(super) struct Link {
    pub(super) line: usize,
    pub(super) target: String,
}

impl Link {
    /// Returns true if the link leads into the tree.
    pub(super) fn is_local(&self) -> bool {
        is_local(&self.target)
    }

    /// Returns the file and the heading of a local link, each empty if it is missing.
    pub(super) fn parts(&self) -> (&str, &str) {
        self.target.split_once('#').unwrap_or((&self.target, ""))
    }
}

fn is_local(target: &str) -> bool {
    !target.contains("://") && !target.starts_with("mailto:")
}

impl Document {
    /// Parses the text of a document.
    pub(super) fn parse(text: &str) -> Self {
        let parser = Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter();
        let (mut events, mut links) = (Vec::new(), Vec::new());
        for (event, range) in parser {
            if let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = &event {
                let line = text[..range.start].matches('\n').count() + 1;
                links.push(Link { line, target: dest_url.to_string() });
            }
            events.push(event.into_static());
        }
        let (mut title, mut anchors) = (String::new(), BTreeSet::new());
        for at in 0..events.len() {
            if !matches!(events[at], Event::Start(Tag::Heading { .. })) {
                continue;
            }
            let heading = heading(&events[at..]);
            let anchor = anchor(&heading, &anchors);
            if let Event::Start(Tag::Heading { id, .. }) = &mut events[at] {
                *id = Some(anchor.clone().into());
            }
            anchors.insert(anchor);
            if title.is_empty() {
                title = heading;
            }
        }
        Self { title, anchors, links, events }
    }

    /// Returns the text as HTML, with each local target changed by `target`.
    pub(super) fn html(&self, target: impl Fn(&str) -> String) -> String {
        let change = |to: &mut CowStr<'static>| {
            if is_local(to) {
                *to = target(to).into();
            }
        };
        let events = self.events.iter().cloned().map(|mut event| {
            if let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) =
                &mut event
            {
                change(dest_url);
            }
            event
        });
        let mut text = String::new();
        html::push_html(&mut text, events);
        text
    }
}

/// Returns the text of the heading with which `events` begin.
fn heading(events: &[Event<'_>]) -> String {
    let own = events.iter().take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    let mut heading = String::new();
    for event in own {
        if let Event::Text(text) | Event::Code(text) = event {
            heading.push_str(text);
        }
    }
    heading
}

/// Returns the name of a heading in links, as sites for source code form it.
fn anchor(heading: &str, others: &BTreeSet<String>) -> String {
    let mut anchor = String::new();
    for c in heading.trim().to_lowercase().chars() {
        match c {
            ' ' => anchor.push('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => anchor.push(c),
            _ => {}
        }
    }
    let numbered = (1..).map(|number| format!("{anchor}-{number}"));
    let mut names = std::iter::once(anchor.clone()).chain(numbered);
    names.find(|name| !others.contains(name)).expect("a number is free")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_the_names_of_source_sites() {
        let document = Document::parse("# At boot: `/etc/fstab`\n\n## Part\n\n## Part\n");
        assert_eq!(document.title, "At boot: /etc/fstab");
        let anchors: Vec<_> = document.anchors.iter().map(String::as_str).collect();
        assert_eq!(anchors, ["at-boot-etcfstab", "part", "part-1"]);
    }

    #[test]
    fn links_know_their_lines_and_code_has_none() {
        let document = Document::parse("A [b](c.md#d).\n\n```\n[x](y.md)\n```\n![e](f.svg)\n");
        let links: Vec<_> = document.links.iter().map(|link| (link.line, link.parts())).collect();
        assert_eq!(links, [(1, ("c.md", "d")), (6, ("f.svg", ""))]);
    }

    #[test]
    fn local_targets_change_in_html() {
        let document = Document::parse("[a](b.md) [c](https://d.org/e.md)");
        let html = document.html(|target| target.replace(".md", ".html"));
        assert!(html.contains("\"b.html\"") && html.contains("\"https://d.org/e.md\""), "{html}");
    }
}
