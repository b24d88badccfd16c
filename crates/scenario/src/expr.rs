//! Expressions: sums and products over names, in claims (where a name is a vector of results) and in settings (where it
//! is a number). In the spirit of PromQL: a name may be filtered by labels, `jain_20s{discipline=taq,share<30000}`, and
//! say what to make of seeds, `jain_20s@min`.
//!
//! ```text
//! comparison = sum [("<" | "<=" | ">" | ">=") sum]          1 where it holds, 0 where not
//! sum        = product {("+" | "-") product}
//! product    = unary {("*" | "/") unary}
//! unary      = "-" unary | number | "(" comparison ")" | name "(" comparison {"," comparison} ")"
//!            | name ["@" over] ["{" label op value {"," ...} "}"]
//! ```

use crate::quantity;

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Number(f64),
    Name(Name),
    Call { function: String, arguments: Vec<Self>, at: usize },
    Binary { operator: Operator, left: Box<Self>, right: Box<Self>, at: usize },
    Negative(Box<Self>),
}

/// A name and what is wanted of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Name {
    pub name: String,
    pub over: Over,
    pub filters: Vec<Filter>,
    /// Where it stands, counted in characters from 1.
    pub at: usize,
}

/// What to make of several seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Over {
    #[default]
    Median,
    Mean,
    Min,
    Max,
    /// The seed becomes a label.
    Each,
}

/// A condition on a label.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Filter {
    pub label: String,
    pub comparison: Comparison,
    pub value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    AtMost,
    More,
    AtLeast,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Plus,
    Minus,
    Times,
    Over,
    Compare(Comparison),
}

impl Comparison {
    pub(crate) fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Self::Equal => a == b,
            Self::NotEqual => a != b,
            Self::Less => a < b,
            Self::AtMost => a <= b,
            Self::More => a > b,
            Self::AtLeast => a >= b,
        }
    }

    /// The comparison at the beginning of `text`, and its length.
    pub(crate) fn read(text: &str) -> Option<(Self, usize)> {
        let known = [
            ("<=", Self::AtMost),
            (">=", Self::AtLeast),
            ("!=", Self::NotEqual),
            ("==", Self::Equal),
            ("<", Self::Less),
            (">", Self::More),
            ("=", Self::Equal),
        ];
        known.into_iter().find(|(t, _)| text.starts_with(t)).map(|(t, c)| (c, t.len()))
    }
}

impl Operator {
    pub(crate) fn apply(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Plus => a + b,
            Self::Minus => a - b,
            Self::Times => a * b,
            Self::Over => a / b,
            Self::Compare(c) => f64::from(u8::from(c.holds(a, b))),
        }
    }

    pub(crate) const fn sign(self) -> &'static str {
        match self {
            Self::Plus => "+",
            Self::Minus => "-",
            Self::Times => "*",
            Self::Over => "/",
            Self::Compare(_) => "comparison",
        }
    }
}

/// Deepest nesting: far beyond any claim, far within the stack.
const DEEPEST: usize = 64;
/// Most operators: a tree may be as deep as it has operators.
const MOST: usize = 500;

impl Expr {
    /// Reads `text`; an error says at which character what was expected.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut p = Parser { text, at: 0, depth: 0, operators: 0 };
        let e = p.comparison()?;
        p.space();
        if p.at < text.len() { Err(p.wrong("an operator or the end")) } else { Ok(e) }
    }
}

/// A sentence about a place in an expression.
pub(crate) fn told(text: &str, at: usize, problem: &str) -> String {
    format!("'{text}', character {at}: {problem}")
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

    /// Characters before this, plus one: what an editor shows.
    fn place(&self) -> usize {
        self.text[..self.at].chars().count() + 1
    }

    fn wrong(&self, expected: &str) -> String {
        let found = self.rest().chars().next().map_or("the end".to_owned(), |c| format!("'{c}'"));
        told(self.text, self.place(), &format!("expected {expected}, found {found}"))
    }

    /// Takes `sign` if it comes next.
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

    /// What a label is compared with: quoted, or up to the next comma or brace.
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

/// The functions of one number.
pub(crate) fn of_one(function: &str) -> Option<fn(f64) -> f64> {
    Some(match function {
        "abs" => f64::abs,
        "sqrt" => f64::sqrt,
        "round" => f64::round,
        "floor" => f64::floor,
        "ceil" => f64::ceil,
        _ => return None,
    })
}

/// The functions that make one number of many.
pub(crate) fn of_many(function: &str) -> Option<fn(&[f64]) -> f64> {
    Some(match function {
        "min" => |x| x.iter().copied().reduce(|a, b| pick(a, b, a < b)).unwrap_or(f64::NAN),
        "max" => |x| x.iter().copied().reduce(|a, b| pick(a, b, a > b)).unwrap_or(f64::NAN),
        "mean" => |x| x.iter().sum::<f64>() / x.len() as f64,
        "median" => median,
        "sum" => |x| x.iter().sum(),
        "count" => |x| x.len() as f64,
        _ => return None,
    })
}

/// All functions, for errors.
pub(crate) const FUNCTIONS: [&str; 11] =
    ["abs", "sqrt", "round", "floor", "ceil", "min", "max", "mean", "median", "sum", "count"];

/// One of the two; NaN if either is, so that a run in which nothing came to its end is not passed over.
fn pick(a: f64, b: f64, first: bool) -> f64 {
    match (a.is_nan() || b.is_nan(), first) {
        (true, _) => f64::NAN,
        (_, true) => a,
        (_, false) => b,
    }
}

/// The middle, or the mean of the two in the middle; NaN if any is, or if there are none.
pub(crate) fn median(x: &[f64]) -> f64 {
    if x.is_empty() || x.iter().any(|v| v.is_nan()) {
        return f64::NAN;
    }
    let mut x = x.to_vec();
    x.sort_by(f64::total_cmp);
    let middle = x.len() / 2;
    if x.len() % 2 == 1 { x[middle] } else { f64::midpoint(x[middle - 1], x[middle]) }
}

/// The value of an expression in which names are numbers; an error is a sentence.
pub(crate) fn number(
    e: &Expr,
    text: &str,
    look: &mut dyn FnMut(&str) -> Result<f64, String>,
) -> Result<f64, String> {
    Ok(match e {
        Expr::Number(n) => *n,
        Expr::Negative(inside) => -number(inside, text, look)?,
        Expr::Binary { operator, left, right, .. } => {
            operator.apply(number(left, text, look)?, number(right, text, look)?)
        }
        Expr::Name(n) if n.filters.is_empty() && n.over == Over::Median => {
            look(&n.name).map_err(|problem| told(text, n.at, &problem))?
        }
        Expr::Name(n) => {
            return Err(told(text, n.at, "expected a bare name: labels and seeds are for claims"));
        }
        Expr::Call { function, arguments, at } => {
            let values: Vec<f64> =
                arguments.iter().map(|a| number(a, text, look)).collect::<Result<_, _>>()?;
            match (of_one(function), of_many(function), values.as_slice()) {
                (Some(f), _, [x]) => f(*x),
                (None, Some(f), many) => f(many),
                (Some(_), _, _) => return Err(told(text, *at, &format!("{function} takes one argument"))),
                (None, None, _) if crate::model::of(function).is_some() => {
                    return Err(told(text, *at, "expected a function: models are for claims"));
                }
                (None, None, _) => return Err(told(text, *at, &unknown_function(function))),
            }
        }
    })
}

/// `no function 'mx'; did you mean ...`.
pub(crate) fn unknown_function(function: &str) -> String {
    let all: Vec<&str> = FUNCTIONS.into_iter().chain(crate::model::MODELS.iter().map(|m| m.name)).collect();
    match crate::error::nearest(function, all.iter().copied()) {
        Some(near) => format!("there is no function '{function}'; did you mean '{near}'?"),
        None => format!("there is no function '{function}'; expected one of {}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<f64, String> {
        let mut names = |name: &str| match name {
            "rate" => Ok(600e3),
            "share" => Ok(5e3),
            _ => Err(format!("no '{name}'")),
        };
        number(&Expr::parse(text)?, text, &mut names)
    }

    #[test]
    fn arithmetic_by_hand() {
        for (text, result) in [
            ("1 + 2 * 3", 7.0),
            ("(1+2)*3", 9.0),
            ("10-4-3", 3.0),
            ("-2 * -3", 6.0),
            ("rate/share", 120.0),
            ("rate*200ms/8/500", 30.0),
            ("600kbit - rate", 0.0),
            ("1e3+1e-3", 1000.001),
            ("round(7/2) + floor(3.9) + ceil(3.1)", 11.0),
            ("min(3, 1, 2) + max(3,1,2) + median(5, 1, 3)", 7.0),
            ("sqrt(abs(-16))", 4.0),
            ("mean(3 > 2, 3 < 2)", 0.5),
        ] {
            assert_eq!(value(text), Ok(result), "{text}");
        }
        assert!(median(&[]).is_nan());
        for text in ["min(1, 0/0)", "max(0/0, 1)", "min(0/0, 1)", "max(1, 0/0)"] {
            assert!(value(text).unwrap().is_nan(), "{text} passes over what is no number");
        }
    }

    #[test]
    fn errors_say_where() {
        for (text, says) in [
            ("", "character 1: expected a number, a name or '(', found the end"),
            ("1 +", "character 4: expected a number"),
            ("1 2", "character 3: expected an operator or the end, found '2'"),
            ("(1", "character 3: expected ')'"),
            ("rates", "character 1: no 'rates'"),
            ("mx(1)", "did you mean 'max'"),
            ("abs(1,2)", "one argument"),
            ("x@best", "character 3: expected median, mean"),
            ("x{}", "character 3: expected a label"),
            ("x{a~b}", "character 4: expected =,"),
            ("x{a='b}", "quote to be closed"),
            ("x{a=b", "expected ','"),
            ("é", "character 1: expected a number"),
            ("5parsec", "as 0.98"),
            ("rate{a=b}", "bare name"),
        ] {
            let e = value(text).unwrap_err();
            assert!(e.contains(says), "{text}: {e}");
        }
        for deep in ["(".repeat(10_000), "-".repeat(10_000), "1".to_owned() + &"+1".repeat(10_000)] {
            assert!(value(&deep).is_err());
        }
    }

    #[test]
    fn filters_and_seeds() {
        let Ok(Expr::Name(n)) = Expr::parse("x.p50_s@min { discipline = fifo:30, share<30000,q=\"a,b}\" }")
        else {
            panic!("a name");
        };
        assert_eq!((n.name.as_str(), n.over, n.filters.len()), ("x.p50_s", Over::Min, 3));
        assert_eq!((n.filters[0].value.as_str(), n.filters[2].value.as_str()), ("fifo:30", "a,b}"));
        assert_eq!(n.filters[1].comparison, Comparison::Less);
    }
}
