//! The little Python that packetdrill scripts use to look at a connection: assignments and assertions over integers.

use std::collections::BTreeMap;

/// Variables of a script.
pub type Names = BTreeMap<String, i64>;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(i64),
    Name(String),
    Sign(&'static str),
}

const SIGNS: [&str; 19] =
    ["==", "!=", "<=", ">=", "+=", "-=", "*=", "<<", ">>", "<", ">", "+", "-", "*", "/", "%", "(", ")", "="];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let (mut list, mut rest) = (vec![], text.trim_start());
    while let Some(c) = rest.chars().next() {
        if c.is_ascii_digit() {
            let len = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            let n = super::script::number(&rest[..len]).ok_or(format!("number {}", &rest[..len]))?;
            list.push(Token::Number(n));
            rest = &rest[len..];
        } else if c.is_alphabetic() || c == '_' {
            let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            list.push(Token::Name(rest[..len].to_owned()));
            rest = &rest[len..];
        } else {
            let sign = SIGNS.iter().find(|s| rest.starts_with(**s)).ok_or(format!("sign {c} in {text}"))?;
            list.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        }
        rest = rest.trim_start();
    }
    Ok(list)
}

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
        let text = first_part(&statement).to_owned();
        let names = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        list.extend(names.filter(|n| n.starts_with("tcpi_")).map(str::to_owned));
    }
    list
}

/// Runs a snippet. `names` holds the script's own variables, `look` finds those of the connection.
pub fn run(code: &str, names: &mut Names, look: &dyn Fn(&str) -> Option<i64>) -> Result<(), String> {
    for statement in statements(code) {
        if let Some(text) = statement.strip_prefix("assert") {
            let text = first_part(text).trim();
            let mut p = Parser { tokens: tokens(text)?, at: 0, names, look };
            if !p.condition()? {
                let seen: Vec<String> = reads(&statement)
                    .iter()
                    .map(|n| format!("{n} = {}", look(n).unwrap_or(i64::MIN)))
                    .collect();
                return Err(format!("assert {text}: {}", seen.join(", ")));
            }
        } else if statement.starts_with("print") || statement.starts_with("import") {
        } else {
            let list = tokens(&statement)?;
            let [Token::Name(name), Token::Sign(sign), value @ ..] = list.as_slice() else {
                return Err(format!("statement {statement}"));
            };
            let value = Parser { tokens: value.to_vec(), at: 0, names, look }.sum()?;
            let old = names.get(name).copied().unwrap_or(0);
            let new = match *sign {
                "=" => value,
                "+=" => old + value,
                "-=" => old - value,
                "*=" => old * value,
                _ => return Err(format!("statement {statement}")),
            };
            names.insert(name.clone(), new);
        }
    }
    Ok(())
}

struct Parser<'a> {
    tokens: Vec<Token>,
    at: usize,
    names: &'a Names,
    look: &'a dyn Fn(&str) -> Option<i64>,
}

impl Parser<'_> {
    fn take(&mut self, signs: &[&str]) -> Option<&'static str> {
        match self.tokens.get(self.at) {
            Some(Token::Sign(sign)) if signs.contains(sign) => {
                self.at += 1;
                Some(sign)
            }
            _ => None,
        }
    }
    fn word(&mut self, word: &str) -> bool {
        let is = matches!(self.tokens.get(self.at), Some(Token::Name(name)) if name == word);
        self.at += usize::from(is);
        is
    }

    /// Comparisons joined by `and` and `or`.
    fn condition(&mut self) -> Result<bool, String> {
        let mut all = self.comparison()?;
        loop {
            if self.word("and") {
                let next = self.comparison()?;
                all = all && next;
            } else if self.word("or") {
                let next = self.comparison()?;
                all = all || next;
            } else {
                return if self.at == self.tokens.len() { Ok(all) } else { Err("expression".to_owned()) };
            }
        }
    }

    /// A chain of comparisons, as in `1 <= x <= 2`.
    fn comparison(&mut self) -> Result<bool, String> {
        let mut left = self.sum()?;
        let mut all = None;
        while let Some(sign) = self.take(&["==", "!=", "<=", ">=", "<", ">"]) {
            let right = self.sum()?;
            let holds = match sign {
                "==" => left == right,
                "!=" => left != right,
                "<=" => left <= right,
                ">=" => left >= right,
                "<" => left < right,
                _ => left > right,
            };
            all = Some(all.unwrap_or(true) && holds);
            left = right;
        }
        Ok(all.unwrap_or(left != 0))
    }

    fn sum(&mut self) -> Result<i64, String> {
        let mut value = self.product()?;
        while let Some(sign) = self.take(&["+", "-"]) {
            let next = self.product()?;
            value = if sign == "+" { value + next } else { value - next };
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<i64, String> {
        let mut value = self.term()?;
        while let Some(sign) = self.take(&["*", "/", "%", "<<", ">>"]) {
            let next = self.term()?;
            value = match sign {
                "*" => value * next,
                "/" => value / next.max(1),
                "%" => value % next.max(1),
                "<<" => value << next,
                _ => value >> next,
            };
        }
        Ok(value)
    }

    fn term(&mut self) -> Result<i64, String> {
        if self.take(&["-"]).is_some() {
            return Ok(-self.term()?);
        }
        if self.take(&["("]).is_some() {
            let value = self.sum()?;
            return self.take(&[")"]).map(|_| value).ok_or("parenthesis".to_owned());
        }
        let token = self.tokens.get(self.at).cloned().ok_or("expression")?;
        self.at += 1;
        match token {
            Token::Number(n) => Ok(n),
            Token::Name(name) => {
                let known = self.names.get(&name).copied().or_else(|| (self.look)(&name));
                known.ok_or(format!("name {name}"))
            }
            Token::Sign(sign) => Err(format!("sign {sign}")),
        }
    }
}
