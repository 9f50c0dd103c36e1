//! Elements and text of a page: always closed, always escaped.
//!
//! The text is HTML that is well-formed XML too, so that any XML reader can check it.

/// Elements that have no content in HTML, and must not have an end tag there.
const VOID: [&str; 5] = ["meta", "link", "br", "hr", "col"];

/// A page as it grows.
#[derive(Debug, Default)]
pub struct Markup {
    text: String,
    open: Vec<&'static str>,
}

impl Markup {
    /// Opens an element; an empty `value` of an attribute leaves it out.
    pub fn open(&mut self, name: &'static str, attributes: &[(&str, &str)]) {
        self.tag(name, attributes);
        self.text.push('>');
        self.open.push(name);
    }

    /// Closes the element that was opened last.
    pub fn close(&mut self) {
        if let Some(name) = self.open.pop() {
            self.text.push_str("</");
            self.text.push_str(name);
            self.text.push('>');
            if !matches!(name, "code" | "span" | "bdi" | "a" | "strong") {
                self.text.push('\n');
            }
        }
    }

    /// An element with content that `inside` writes.
    pub fn element(&mut self, name: &'static str, attributes: &[(&str, &str)], inside: impl FnOnce(&mut Self)) {
        self.open(name, attributes);
        inside(self);
        self.close();
    }

    /// An element with a text in it.
    pub fn leaf(&mut self, name: &'static str, attributes: &[(&str, &str)], text: &str) {
        self.element(name, attributes, |markup| markup.text(text));
    }

    /// An element that never has content.
    pub fn void(&mut self, name: &'static str, attributes: &[(&str, &str)]) {
        debug_assert!(VOID.contains(&name), "{name} has content");
        self.tag(name, attributes);
        self.text.push_str("/>\n");
    }

    /// A text.
    pub fn text(&mut self, text: &str) {
        self.text.push_str(&escaped(text));
    }

    /// A text from a file, which keeps its direction of writing to itself.
    pub fn foreign(&mut self, text: &str) {
        self.leaf("bdi", &[], text);
    }

    /// Markup of our own that is well-formed already.
    pub fn verbatim(&mut self, markup: &str) {
        self.text.push_str(markup);
    }

    /// The page, everything closed.
    pub fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.text
    }

    fn tag(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.text.push('<');
        self.text.push_str(name);
        for (attribute, value) in attributes.iter().filter(|(_, value)| !value.is_empty()) {
            self.text.push_str(&format!(" {attribute}=\"{}\"", escaped(value)));
        }
    }
}

/// Text as it stands in content and in quoted attributes. Characters that XML forbids and those that turn the direction of writing (which
/// make a text look like another one) are shown as U+FFFD.
pub fn escaped(text: &str) -> String {
    let hidden = |character: char| {
        (character.is_control() && character != '\n' && character != '\t')
            || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}')
    };
    match text.contains(hidden) {
        false => quick_xml::escape::escape(text).into_owned(),
        true => quick_xml::escape::escape(text.replace(hidden, "\u{fffd}")).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_is_closed_in_the_reverse_order() {
        let mut markup = Markup::default();
        markup.open("div", &[("class", "a"), ("id", "")]);
        markup.element("p", &[], |markup| {
            markup.text("x");
            markup.void("br", &[]);
        });
        markup.open("span", &[]);
        assert_eq!(markup.finish(), "<div class=\"a\"><p>x<br/>\n</p>\n<span></span></div>\n");
    }

    #[test]
    fn text_cannot_become_markup_or_leave_its_attribute() {
        // By the syntax of XML 1.0 (W3C 2008, section 2.4), written by hand.
        let hostile = "<script>alert(1)</script> & \"x\" 'y'";
        let shown = "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;x&quot; &apos;y&apos;";
        let mut markup = Markup::default();
        markup.leaf("td", &[("title", hostile)], hostile);
        assert_eq!(markup.finish(), format!("<td title=\"{shown}\">{shown}</td>\n"));
    }

    #[test]
    fn characters_that_hide_text_are_shown() {
        assert_eq!(
            escaped("a\u{1b}[31m\0b\r\u{202e}c\u{2066}\u{ffff}\u{9b}"),
            "a\u{fffd}[31m\u{fffd}b\u{fffd}\u{fffd}c\u{fffd}\u{fffd}\u{fffd}"
        );
        assert_eq!(escaped("tab\tline\nä→√"), "tab\tline\nä→√");
    }
}
