//! The little Python that packetdrill scripts use to look at a connection: assertions that compare numbers, and numbers
//! that a script keeps for itself. All else is an error.

use std::collections::BTreeMap;

use super::script::number;

/// Variables of a script.
pub type Names = BTreeMap<String, i64>;

/// Statements of a snippet: lines, or parts between semicolons, without comments.
fn statements(code: &str) -> Vec<String> {
    let code = code.replace("\\\n", " ");
    code.lines()
        .map(|line| line.split('#').next().unwrap_or(""))
        .flat_map(|line| line.split(';'))
        .map(|s| s.trim().to_owned())
        .filter(|s| !s.is_empty())
        .collect()
}

/// Cuts what a statement asserts: the text up to a comma outside of parentheses.
fn first_part(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => return &text[..at],
            _ => {}
        }
    }
    text
}

/// The names of the connection that a snippet reads.
pub fn reads(code: &str) -> Vec<String> {
    let mut list = vec![];
    for statement in statements(code) {
        let names = first_part(&statement).split(|c: char| !c.is_alphanumeric() && c != '_');
        list.extend(names.filter(|n| n.starts_with("tcpi_")).map(str::to_owned));
    }
    list
}

/// Runs a snippet. `names` holds the script's own variables, `look` finds those of the connection. Returns the number
/// of assertions, all of which hold.
pub fn run(code: &str, names: &mut Names, look: &dyn Fn(&str) -> Option<i64>) -> Result<u32, String> {
    let mut asserted = 0;
    for statement in statements(code) {
        let value = |text: &str| {
            let text = text.trim();
            let known = number(text).or_else(|| names.get(text).copied()).or_else(|| look(text));
            known.ok_or_else(|| format!("{text} is neither a number nor a name"))
        };
        if let Some(text) = statement.strip_prefix("assert") {
            let text = first_part(text).trim();
            if !holds(text, &value)? {
                let seen: Vec<String> =
                    reads(text).iter().map(|n| format!("{n} = {}", look(n).unwrap_or(i64::MIN))).collect();
                return Err(format!("assert {text}: {}", seen.join(", ")));
            }
            asserted += 1;
        } else if !statement.starts_with("print(") {
            let (name, text) = statement.split_once('=').ok_or_else(|| format!("statement {statement}"))?;
            let (name, old) = match name.strip_suffix('+') {
                Some(name) => (name.trim(), value(name)?),
                None => (name.trim(), 0),
            };
            if !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
                return Err(format!("statement {statement}"));
            }
            let new = old + value(text)?;
            names.insert(name.to_owned(), new);
        }
    }
    Ok(asserted)
}

/// Whether a chain of comparisons holds, as `1 <= x <= 2`.
fn holds(text: &str, value: &dyn Fn(&str) -> Result<i64, String>) -> Result<bool, String> {
    let operand = |text: &str| text.find(['=', '!', '<', '>']).unwrap_or(text.len());
    let (first, mut rest) = text.split_at(operand(text));
    if rest.is_empty() {
        return Err(format!("assert {text}: no comparison"));
    }
    let (mut left, mut all) = (value(first)?, true);
    while !rest.is_empty() {
        let sign = ["==", "!=", "<=", ">=", "<", ">"].into_iter().find(|sign| rest.starts_with(sign));
        let sign = sign.ok_or_else(|| format!("assert {text}: no comparison"))?;
        rest = &rest[sign.len()..];
        let (second, after) = rest.split_at(operand(rest));
        let right = value(second)?;
        all &= match sign {
            "==" => left == right,
            "!=" => left != right,
            "<=" => left <= right,
            ">=" => left >= right,
            "<" => left < right,
            _ => left > right,
        };
        (left, rest) = (right, after);
    }
    Ok(all)
}
