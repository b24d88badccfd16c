//! Reading expressions, by recursive descent.
//!
//! ```text
//! comparison = sum [("<" | "<=" | ">" | ">=") sum]          1 where it holds, 0 where not
//! sum        = product {("+" | "-") product}
//! product    = unary {("*" | "/") unary}
//! unary      = "-" unary | number | "(" comparison ")" | name "(" comparison {"," comparison} ")"
//!            | name ["@" over] ["{" label op value {"," ...} "}"]
//! ```

use super::{Comparison, Expr, Filter, Name, Operator, Over, told};
use crate::quantity;

/// Deepest nesting: far beyond any claim, far within the stack.
const DEEPEST: usize = 64;
/// Most operators of an expression: the tree of an expression may be as deep as the number of operators.
const MOST: usize = 500;

/// Reads `text`; an error says at which character what was expected.
pub(super) fn parse(text: &str) -> Result<Expr, String> {
    let mut p = Parser { text, at: 0, depth: 0, operators: 0 };
    let e = p.comparison()?;
    p.space();
    if p.at < text.len() { Err(p.wrong("an operator or the end")) } else { Ok(e) }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    operators: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Place of the next character, counted from 1 as in an editor.
    fn place(&self) -> usize {
        self.text[..self.at].chars().count() + 1
    }

    fn wrong(&self, expected: &str) -> String {
        let found = self.rest().chars().next().map_or("the end".to_owned(), |c| format!("'{c}'"));
        told(self.text, self.place(), &format!("expected {expected}, found {found}"))
    }

    /// Takes `sign` if `sign` comes next; tells whether the sign came.
    fn take(&mut self, sign: char) -> bool {
        self.space();
        let found = self.rest().starts_with(sign);
        self.at += if found { sign.len_utf8() } else { 0 };
        found
    }

    fn expect(&mut self, sign: char) -> Result<(), String> {
        if self.take(sign) { Ok(()) } else { Err(self.wrong(&format!("'{sign}'"))) }
    }

    fn deeper<T>(&mut self, inside: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(told(self.text, self.place(), "expected less nesting"));
        }
        let result = inside(self);
        self.depth -= 1;
        result
    }

    fn comparison(&mut self) -> Result<Expr, String> {
        let left = self.sum()?;
        self.space();
        let at = self.place();
        match Comparison::read(self.rest()) {
            Some((c, len)) if !matches!(c, Comparison::Equal | Comparison::NotEqual) => {
                self.at += len;
                Ok(binary(Operator::Compare(c), left, self.sum()?, at))
            }
            _ => Ok(left),
        }
    }

    fn sum(&mut self) -> Result<Expr, String> {
        self.chain(&[('+', Operator::Plus), ('-', Operator::Minus)], Self::product)
    }

    fn product(&mut self) -> Result<Expr, String> {
        self.chain(&[('*', Operator::Times), ('/', Operator::Over)], Self::unary)
    }

    /// `next {sign next}`, from the left.
    fn chain(
        &mut self,
        signs: &[(char, Operator)],
        next: fn(&mut Self) -> Result<Expr, String>,
    ) -> Result<Expr, String> {
        let mut left = next(self)?;
        loop {
            self.space();
            let at = self.place();
            let Some((_, operator)) = signs.iter().find(|(sign, _)| self.rest().starts_with(*sign)) else {
                return Ok(left);
            };
            self.at += 1;
            self.operators += 1;
            if self.operators > MOST {
                return Err(told(self.text, at, &format!("expected at most {MOST} operators")));
            }
            left = binary(*operator, left, next(self)?, at);
        }
    }

    fn unary(&mut self) -> Result<Expr, String> {
        self.deeper(|p| {
            if p.take('-') {
                return Ok(Expr::Negative(Box::new(p.unary()?)));
            }
            if p.take('(') {
                let inside = p.comparison()?;
                p.expect(')')?;
                return Ok(inside);
            }
            match p.rest().chars().next() {
                Some(c) if c.is_ascii_digit() || c == '.' => p.number(),
                Some(c) if c.is_ascii_alphabetic() || c == '_' => p.name(),
                _ => Err(p.wrong("a number, a name or '('")),
            }
        })
    }

    /// `0.98`, `1e6`, or a quantity as `600kbit` and `200ms`, in its base unit.
    fn number(&mut self) -> Result<Expr, String> {
        let rest = self.rest();
        let mut end = 0;
        while let Some(c) = rest[end..].chars().next() {
            let sign_of_exponent = (c == '-' || c == '+')
                && rest[..end].ends_with(['e', 'E'])
                && rest[..end - 1].ends_with(|b: char| b.is_ascii_digit() || b == '.');
            if !(c.is_ascii_alphanumeric() || c == '.' || sign_of_exponent) {
                break;
            }
            end += c.len_utf8();
        }
        match quantity::number(&rest[..end]) {
            Some(n) => {
                self.at += end;
                Ok(Expr::Number(n))
            }
            None => Err(self.wrong("a number, as 0.98, 1e6, 600kbit or 200ms")),
        }
    }

    fn word(&mut self, also: &str) -> &str {
        let (text, from) = (self.text, self.at);
        let plain = |c: char| c.is_ascii_alphanumeric() || also.contains(c);
        let end = text[from..].find(|c| !plain(c)).unwrap_or(text.len() - from);
        self.at += end;
        &text[from..from + end]
    }

    fn name(&mut self) -> Result<Expr, String> {
        let at = self.place();
        let name = self.word("_.").to_owned();
        if self.take('(') {
            let mut arguments = vec![self.comparison()?];
            while self.take(',') {
                arguments.push(self.comparison()?);
            }
            self.expect(')')?;
            return Ok(Expr::Call { function: name, arguments, at });
        }
        let mut over = Over::default();
        if self.take('@') {
            let before = self.at;
            over = match self.word("_") {
                "median" => Over::Median,
                "mean" => Over::Mean,
                "min" => Over::Min,
                "max" => Over::Max,
                "each" => Over::Each,
                _ => {
                    self.at = before;
                    return Err(self.wrong("median, mean, min, max or each"));
                }
            };
        }
        let filters = if self.take('{') { self.filters()? } else { Vec::new() };
        Ok(Expr::Name(Name { name, over, filters, at }))
    }

    fn filters(&mut self) -> Result<Vec<Filter>, String> {
        let mut filters = Vec::new();
        loop {
            self.space();
            let label = self.word("_.-").to_owned();
            if label.is_empty() {
                return Err(self.wrong("a label"));
            }
            self.space();
            let Some((comparison, len)) = Comparison::read(self.rest()) else {
                return Err(self.wrong("=, !=, <, <=, > or >="));
            };
            self.at += len;
            filters.push(Filter { label, comparison, value: self.value()? });
            if self.take('}') {
                return Ok(filters);
            }
            self.expect(',')?;
        }
    }

    /// Reads the value that a label is compared with: quoted, or up to the next comma or brace.
    fn value(&mut self) -> Result<String, String> {
        self.space();
        for quote in ['"', '\''] {
            if self.take(quote) {
                let Some(end) = self.rest().find(quote) else {
                    return Err(told(
                        self.text,
                        self.place(),
                        &format!("expected the quote to be closed by {quote}"),
                    ));
                };
                let value = self.rest()[..end].to_owned();
                self.at += end + 1;
                return Ok(value);
            }
        }
        let end = self.rest().find([',', '}']).unwrap_or(self.rest().len());
        let value = self.rest()[..end].trim().to_owned();
        if value.is_empty() {
            return Err(self.wrong("a value"));
        }
        self.at += end;
        Ok(value)
    }
}

fn binary(operator: Operator, left: Expr, right: Expr, at: usize) -> Expr {
    Expr::Binary { operator, left: Box::new(left), right: Box::new(right), at }
}
