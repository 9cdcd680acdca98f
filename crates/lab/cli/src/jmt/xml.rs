//! An indenting XML writer.

/// A document under construction.
#[derive(Debug)]
pub(super) struct Writer {
    text: String,
    open: Vec<&'static str>,
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

impl Writer {
    pub(super) fn new() -> Self {
        Self { text: "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".into(), open: Vec::new() }
    }

    fn tag(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.text.push_str(&"  ".repeat(self.open.len()));
        self.text.push('<');
        self.text.push_str(name);
        for (key, value) in attributes {
            self.text.push_str(&format!(" {key}=\"{}\"", escaped(value)));
        }
    }

    /// Opens an element.
    pub(super) fn open(&mut self, name: &'static str, attributes: &[(&str, &str)]) {
        self.tag(name, attributes);
        self.text.push_str(">\n");
        self.open.push(name);
    }

    /// Writes an element without content.
    pub(super) fn empty(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.tag(name, attributes);
        self.text.push_str("/>\n");
    }

    /// Writes an element that contains only text.
    pub(super) fn words(&mut self, name: &str, attributes: &[(&str, &str)], words: &str) {
        self.tag(name, attributes);
        self.text.push_str(&format!(">{}</{name}>\n", escaped(words)));
    }

    /// Closes the element opened last.
    pub(super) fn close(&mut self) {
        if let Some(name) = self.open.pop() {
            self.text.push_str(&"  ".repeat(self.open.len()));
            self.text.push_str(&format!("</{name}>\n"));
        }
    }

    /// Closes all open elements.
    pub(super) fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.text.trim_end().to_owned()
    }
}
