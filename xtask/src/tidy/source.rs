//! A Rust file split into code, comments and strings, so that the checks need no parser.
//!
//! Owns: the splitting, the brace matcher, and which lines are test code.
//! Does not own: any syntax above braces and words; macros are taken as they are written.
//!
//! Invariants:
//! 1. `code` and `comments` have the same characters per line as the file; what belongs to the other is a space.
//! 2. A quote of a string stays in `code`, its content does not.

/// A Rust file, ready to be searched.
#[derive(Debug)]
pub(crate) struct Source {
    pub(super) path: String,
    /// Lines as written.
    pub(super) lines: Vec<String>,
    /// Lines without comments and without the content of strings and character literals.
    pub(super) code: Vec<String>,
    /// Lines with nothing but comments.
    pub(super) comments: Vec<String>,
    /// String literals with the line (from 1) on which they start.
    pub(super) strings: Vec<(usize, String)>,
    /// Per line, whether it belongs to a test.
    test: Vec<bool>,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Source {
        let mut split = Split::default();
        split.run(text);
        let lines = |text: &str| text.split('\n').map(str::to_owned).collect::<Vec<_>>();
        let mut source = Source {
            path: path.into(),
            lines: lines(text),
            code: lines(&split.code),
            comments: lines(&split.comments),
            strings: split.strings,
            test: Vec::new(),
        };
        source.test = source.test_lines();
        source
    }

    /// Whether the whole file is test code.
    pub(super) fn is_test_file(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/") || self.path.contains("/benches/")
    }

    /// Whether a line (from 1) is test code.
    pub(super) fn is_test(&self, line: usize) -> bool {
        self.test.get(line - 1).copied().unwrap_or(false)
    }

    /// Whether what it prints is meant for a person at a terminal: a binary, an example, a tool.
    pub(super) fn is_program(&self) -> bool {
        let tool = ["xtask/", "crates/bench/", "crates/e2e/"].iter().any(|folder| self.path.starts_with(folder));
        tool || self.path.ends_with("/src/main.rs") || self.path.contains("/src/bin/") || self.path.contains("/examples/")
    }

    /// Lines of code with their numbers from 1.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.iter().enumerate().map(|(at, line)| (at + 1, line.as_str()))
    }

    /// Where `keyword name` stands in the code, with the name: `fn`, `trait`.
    pub(super) fn items(&self, keyword: &str) -> Vec<(usize, String)> {
        let mut items = Vec::new();
        for (number, line) in self.numbered() {
            for (at, _) in line.match_indices(keyword) {
                let before = line[..at].chars().next_back();
                let name =
                    line[at + keyword.len()..].strip_prefix(' ').and_then(|rest| words_of(rest).next().filter(|w| rest.starts_with(w)));
                if let (None | Some(' ' | '('), Some(name)) = (before, name) {
                    items.push((number, name.to_owned()));
                }
            }
        }
        items
    }

    /// The lines of the block that opens at or after `line`: from the one with `{` to the one with its `}`. `None` when a
    /// `;` outside of brackets comes first (a declaration without body).
    pub(super) fn block(&self, line: usize, after: &str) -> Option<(usize, usize)> {
        let mut depth = 0i32;
        let mut brackets = 0i32;
        let mut opened = None;
        for (number, text) in self.numbered().skip(line - 1) {
            let start = if number == line { text.find(after).map_or(0, |at| at + after.len()) } else { 0 };
            for c in text[start..].chars() {
                match c {
                    '(' | '[' => brackets += 1,
                    ')' | ']' => brackets -= 1,
                    '{' => {
                        opened.get_or_insert(number);
                        depth += 1;
                    }
                    '}' => {
                        depth -= 1;
                        if depth == 0 {
                            return opened.map(|from| (from, number));
                        }
                    }
                    ';' if brackets == 0 && depth == 0 => return None,
                    _ => {}
                }
            }
        }
        None
    }

    fn test_lines(&self) -> Vec<bool> {
        if self.is_test_file() {
            return vec![true; self.lines.len()];
        }
        let mut test = vec![false; self.lines.len()];
        for (number, line) in self.numbered() {
            if line.contains("#[cfg(test)]") || line.contains("#[cfg(all(test") {
                let end = self.block(number, "]").map_or(number + 1, |(_, end)| end).min(test.len());
                test[number - 1..end].fill(true);
            }
        }
        test
    }
}

/// Words of a line of code: identifiers, also with `$` in front, and single other characters.
pub(super) fn words_of(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).filter(|word| !word.is_empty())
}

/// Whether `word` stands in `line` with no identifier character on either side.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| !part(line[..at].chars().next_back()) && !part(line[at + word.len()..].chars().next()))
}

#[derive(Default)]
struct Split {
    code: String,
    comments: String,
    strings: Vec<(usize, String)>,
    line: usize,
}

impl Split {
    fn run(&mut self, text: &str) {
        self.line = 1;
        let chars: Vec<char> = text.chars().collect();
        let mut at = 0;
        while at < chars.len() {
            let rest = &chars[at..];
            at += match rest {
                ['/', '/', ..] => self.comment(rest, rest.iter().position(|c| *c == '\n').unwrap_or(rest.len())),
                ['/', '*', ..] => self.comment(rest, block_comment(rest)),
                ['"', ..] => self.string(rest, 1, 0),
                ['r', '"' | '#', ..] if !after_word(&chars, at) => match raw_hashes(&rest[1..]) {
                    Some(hashes) => self.string(rest, hashes + 2, hashes + 1),
                    None => self.copy(rest[0]),
                },
                ['\'', ..] => self.quote(rest),
                [c, ..] => self.copy(*c),
                [] => 1,
            };
        }
    }

    fn copy(&mut self, c: char) -> usize {
        self.put(c, ' ');
        1
    }

    fn put(&mut self, code: char, comment: char) {
        if code == '\n' || comment == '\n' {
            self.line += 1;
            self.code.push('\n');
            self.comments.push('\n');
        } else {
            self.code.push(code);
            self.comments.push(comment);
        }
    }

    fn comment(&mut self, rest: &[char], length: usize) -> usize {
        rest[..length].iter().for_each(|c| self.put(if *c == '\n' { '\n' } else { ' ' }, *c));
        length
    }

    /// A string of which the first `opening` characters are its opening; `raw` is 0 for one with escapes, else one more
    /// than its number of `#`.
    fn string(&mut self, rest: &[char], opening: usize, raw: usize) -> usize {
        let from = self.line;
        rest[..opening].iter().for_each(|c| self.put(*c, ' '));
        let mut content = String::new();
        let mut at = opening;
        while at < rest.len() {
            let hashes = raw.saturating_sub(1);
            if rest[at] == '"' && rest[at + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes {
                rest[at..=at + hashes].iter().for_each(|c| self.put(*c, ' '));
                at += hashes + 1;
                break;
            }
            let width = if raw == 0 && rest[at] == '\\' { 2 } else { 1 };
            for c in rest[at..].iter().take(width) {
                content.push(*c);
                self.put(if *c == '\n' { '\n' } else { ' ' }, ' ');
            }
            at += width;
        }
        self.strings.push((from, content));
        at.min(rest.len())
    }

    /// A character literal or the tick of a lifetime.
    fn quote(&mut self, rest: &[char]) -> usize {
        let length = match rest {
            ['\'', '\\', _, tail @ ..] => 3 + tail.iter().position(|c| *c == '\'').map_or(0, |end| end + 1),
            ['\'', _, '\'', ..] => 3,
            _ => return self.copy('\''),
        };
        let length = length.min(rest.len());
        (0..length).for_each(|at| self.put(if rest[at] == '\n' { '\n' } else { ' ' }, ' '));
        length
    }
}

fn block_comment(rest: &[char]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => {
                depth += 1;
                at += 2;
            }
            ['*', '/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    rest.len()
}

/// Whether the character at `at` continues an identifier (so that `for"` is no raw string); `b` and `c` prefixes do not count.
fn after_word(chars: &[char], at: usize) -> bool {
    let before = |n: usize| at.checked_sub(n).and_then(|i| chars.get(i)).copied();
    match before(1) {
        Some('b' | 'c') => before(2).is_some_and(|c| c.is_alphanumeric() || c == '_'),
        Some(c) => c.is_alphanumeric() || c == '_',
        None => false,
    }
}

/// The number of `#` between an `r` and the quote of a raw string; `None` when there is no quote (a raw identifier).
fn raw_hashes(rest: &[char]) -> Option<usize> {
    let hashes = rest.iter().take_while(|c| **c == '#').count();
    (rest.get(hashes) == Some(&'"')).then_some(hashes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_and_comments_are_not_code() {
        let source = Source::new("a.rs", "let a = \"x // y \\\" {\"; // todo {\nlet b = r#\"}\"# /* { /* n */ */ + '{' + b'\\'';");
        assert_eq!(source.code[0].trim_end(), "let a = \"           \";");
        assert!(source.comments[0].contains("// todo {"));
        assert!(!source.code[1].contains(['{', '}']), "{}", source.code[1]);
        assert_eq!(source.strings, vec![(1, "x // y \\\" {".to_owned()), (2, "}".to_owned())]);
        assert_eq!(source.code[1].len(), source.lines[1].len());
    }

    #[test]
    fn lifetimes_and_raw_identifiers_stay_code() {
        let source = Source::new("a.rs", "fn f<'a>(r#type: &'a str) -> &'static str { r#type }");
        assert_eq!(source.code[0], source.lines[0]);
    }

    #[test]
    fn the_item_after_cfg_test_is_test_code_and_what_follows_is_not() {
        let source =
            Source::new("a.rs", "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n#[cfg(test)]\nmod more;\nfn d() {}");
        let test: Vec<usize> = (1..=9).filter(|n| source.is_test(*n)).collect();
        assert_eq!(test, [2, 3, 4, 5, 7, 8]);
    }

    #[test]
    fn a_block_spans_from_its_brace_to_the_matching_one() {
        let source = Source::new("a.rs", "fn a(\n    x: [u8; 3],\n) -> u8 {\n    if x { 1 } else { 2 }\n}\nfn b();");
        assert_eq!(source.items("fn"), vec![(1, "a".into()), (6, "b".into())]);
        assert_eq!(source.block(1, "fn a"), Some((3, 5)));
        assert_eq!(source.block(6, "fn b"), None);
    }
}
