//! Functions: how long they are and how many arguments they take. Rust and C are read by lines, which formatting makes
//! possible: the closing brace of a function stands in the column of its first word.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::{ARGUMENTS, Bound, Broken, FUNCTION_LINES, is_test};

/// A function.
#[derive(Debug, Deserialize, PartialEq, Eq)]
pub struct Function {
    name: String,
    /// Where it begins, from 1.
    pub line: usize,
    /// Lines with code in its body.
    lines: usize,
    arguments: usize,
    /// It says why it is long.
    #[serde(default)]
    excused: bool,
}

impl Function {
    /// Which bounds it breaks. A test may be long for a reason it gives, as a table is.
    pub fn judged(&self, path: &str, in_test: bool) -> Vec<Broken> {
        let broken = |bound, told| Broken { bound, path: path.to_owned(), line: self.line, told };
        let mut all = Vec::new();
        if self.lines > FUNCTION_LINES && !(in_test && self.excused) {
            all.push(broken(Bound::Function, format!("{}: {} lines", self.name, self.lines)));
        }
        if self.arguments > ARGUMENTS {
            all.push(broken(Bound::Arguments, format!("{}: {} arguments", self.name, self.arguments)));
        }
        all
    }
}

/// The functions of a formatted file.
pub fn rust(lines: &[&str]) -> Vec<Function> {
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = rust_name(line.trim_start()) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        // The signature ends with the brace of the body, or without one in a trait.
        let ends = |l: &&str| l.ends_with(['{', '}', ';']);
        let Some(open) = lines[at..].iter().position(ends).map(|n| at + n) else { continue };
        let signature: String = lines[at..=open].join(" ");
        let rest = signature.split_once("fn ").map_or("", |(_, rest)| &rest[name.len()..]);
        let above = lines[..at]
            .iter()
            .rev()
            .take_while(|l| l.trim_start().starts_with(['#', '/']) || l.ends_with(")]"));
        let excused = above.into_iter().any(|l| l.contains("too_many_lines"));
        let lines = body(&lines[open + 1..], indent, lines[open].ends_with('{'));
        found.push(Function {
            name: name.to_owned(),
            line: at + 1,
            lines,
            arguments: arguments(rest),
            excused,
        });
    }
    found
}

/// The name of the function that a line begins to define.
fn rust_name(line: &str) -> Option<&str> {
    let mut rest = line;
    loop {
        if let Some(name) = rest.strip_prefix("fn ") {
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_')?;
            return (end > 0).then(|| &name[..end]);
        }
        let word = ["pub ", "default ", "const ", "async ", "unsafe ", "extern \"C\" "];
        rest = match word.iter().find_map(|w| rest.strip_prefix(w)) {
            Some(rest) => rest,
            None => rest.strip_prefix("pub(")?.split_once(") ")?.1,
        };
    }
}

/// Lines with code up to the closing brace in the column of `indent`.
fn body(lines: &[&str], indent: &str, opened: bool) -> usize {
    let closes = |l: &&&str| l.strip_prefix(indent).is_some_and(|rest| rest.starts_with('}'));
    let code = |l: &&&str| !l.trim().is_empty() && !l.trim_start().starts_with("//");
    if opened { lines.iter().take_while(|l| !closes(l)).filter(code).count() } else { 0 }
}

/// How many arguments stand between the first parentheses, behind generics.
fn arguments(signature: &str) -> usize {
    let (mut depth, mut count, mut empty, mut angle) = (0, 0, true, 0);
    let mut before = ' ';
    for c in signature.chars() {
        // An arrow closes nothing.
        let closes = c == '>' && !matches!(before, '-' | '=');
        match c {
            '<' => angle += 1,
            _ if closes => angle -= 1,
            '(' | '[' | '{' if angle == 0 || depth > 0 => depth += 1,
            ')' | ']' | '}' if angle == 0 || depth > 0 => depth -= 1,
            ',' if depth == 1 && angle == 0 => {
                count += usize::from(!empty);
                empty = true;
            }
            _ => {}
        }
        if depth == 0 && matches!(c, ')') && angle == 0 {
            break;
        }
        if depth >= 1 && !c.is_whitespace() && !(c == '(' && depth == 1 && empty) && c != ',' {
            empty = false;
        }
        before = c;
    }
    count + usize::from(!empty)
}

/// The functions of a file in C: those that begin in the first column.
pub fn c(lines: &[&str]) -> Vec<Function> {
    let mut found = Vec::new();
    for (open, line) in lines.iter().enumerate() {
        let begins = |l: &str| l.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let closes =
            *line == "{" || (line.ends_with(") {") && (begins(line) || line.starts_with([' ', '\t'])));
        if !closes {
            continue;
        }
        let Some(at) = lines[..=open].iter().rposition(|l| begins(l)) else { continue };
        let signature = lines[at..=open].join(" ");
        let Some((head, rest)) = signature.split_once('(') else { continue };
        // What is indented within a body begins nothing.
        if open - at > 8
            || lines[at..open].iter().any(|l| l.starts_with(['}', '#']) || l.ends_with([';', '{']))
        {
            continue;
        }
        let name = head.rsplit([' ', '*']).next().unwrap_or(head).to_owned();
        let arguments = if rest.starts_with("void)") { 0 } else { arguments(&format!("({rest}")) };
        let lines = body(&lines[open + 1..], "", true);
        found.push(Function { name, line: at + 1, lines, arguments, excused: false });
    }
    found
}

/// Asks Python for the functions of its files; a line of JSON each.
const ASK: &str = r##"
import ast, json, sys
for path in sys.stdin.read().split("\0"):
    if not path:
        continue
    text = open(path, encoding="utf-8").read()
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text, path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0]
            said = isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str)
            start = first.end_lineno if said else first.lineno - 1
            body = [line.strip() for line in lines[start:node.end_lineno]]
            given = node.args
            print(json.dumps({
                "path": path, "name": node.name, "line": node.lineno,
                "lines": sum(1 for line in body if line and not line.startswith("#")),
                "arguments": len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs),
            }))
"##;

/// What functions in Python break; nothing where there is no Python.
pub fn python(root: &Path, paths: &[String]) -> Result<Vec<Broken>> {
    let files: Vec<&str> = paths.iter().map(String::as_str).filter(|p| p.ends_with(".py")).collect();
    let child = Command::new("python3")
        .args(["-c", ASK])
        .current_dir(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        eprintln!("limits: functions in Python not looked at: python3 is missing");
        return Ok(Vec::new());
    };
    // It reads all before it prints anything. Dropping its input ends it.
    let mut input = child.stdin.take().context("python3's input")?;
    std::io::Write::write_all(&mut input, files.join("\0").as_bytes()).context("asking python3")?;
    drop(input);
    let output = child.wait_with_output().context("python3")?;
    ensure!(output.status.success(), "python3 could not read the files: {}", output.status);
    let mut broken = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        #[derive(Deserialize)]
        struct At {
            path: String,
            #[serde(flatten)]
            function: Function,
        }
        let At { path, function } = serde_json::from_str(line).context("reading what python3 printed")?;
        broken.extend(function.judged(&path, is_test(&path)));
    }
    Ok(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Function {
        let mut all = rust(&text.lines().collect::<Vec<_>>());
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[test]
    fn arguments_are_counted() {
        for (text, n) in [
            ("fn a() {}", 0),
            ("fn a(b: C) {", 1),
            ("    pub(crate) const fn a(&self, b: (u8, u8), c: [u8; 2]) -> X<A, B> {", 3),
            ("fn a<F: Fn(u8, u8) -> u8, const N: usize>(f: F, g: &dyn Fn(A, B) -> C) {", 2),
            ("async fn a(\n    b: HashMap<A, B>,\n    c: D,\n) {", 2),
            ("unsafe extern \"C\" fn a(b: impl Fn(X) -> Y, (c, d): (C, D));", 2),
            ("fn a(self: Box<Self>, b: fn(A, B) -> C, c: &mut [(A, B)]) -> Result<(), (A, B)> {", 3),
        ] {
            assert_eq!(one(text).arguments, n, "{text}");
        }
    }

    #[test]
    fn what_is_no_function_is_left_out() {
        for text in ["// fn a() {", "let f = fn_name(x);", "type F = fn(A) -> B;", "constfn a() {"] {
            assert_eq!(rust(&[text]), []);
        }
    }

    #[test]
    fn bodies_are_counted_without_comments() {
        let text =
            "    fn a() {\n        // why\n        one();\n\n        if x {\n        }\n    }\n    two();\n";
        assert_eq!(one(text).lines, 3);
        assert_eq!(one("fn a();\nlet b = 1;\n").lines, 0);
        let long = format!("fn a() {{\n{}}}\n", "    x();\n".repeat(FUNCTION_LINES + 1));
        assert_eq!(one(&long).judged("a.rs", false).len(), 1);
        let told = format!("#[expect(clippy::too_many_lines, reason = \"a table\")]\n{long}");
        assert_eq!(one(&told).judged("a.rs", false).len(), 1);
        assert_eq!(one(&told).judged("tests/a.rs", true), []);
    }

    #[test]
    fn c_functions() {
        let text = "struct a {\n\tint b;\n};\n\n\
                    static int f(struct sock *sk,\n\t     u32 ack)\n{\n\tif (x) {\n\t\ty();\n\t}\n}\n\
                    int g(void) {\n\tz();\n}\n";
        let found = c(&text.lines().collect::<Vec<_>>());
        let told: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.line, f.lines, f.arguments)).collect();
        assert_eq!(told, [("f", 5, 3, 2), ("g", 12, 1, 0)]);
    }

    #[test]
    fn python_is_asked() {
        let dir = std::env::temp_dir().join(format!("narrows-limits-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let body = "    x = 1\n".repeat(FUNCTION_LINES + 1);
        std::fs::write(
            dir.join("a.py"),
            format!("def f(a, b, c, d, e, *, g, h):\n    \"\"\"Says.\"\"\"\n{body}"),
        )
        .unwrap();
        let broken = python(&dir, &["a.py".to_owned()]).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        if Command::new("python3").arg("--version").output().is_ok() {
            let told: Vec<&str> = broken.iter().map(|b| b.told.as_str()).collect();
            assert_eq!(told, ["f: 61 lines", "f: 7 arguments"]);
        }
    }
}
