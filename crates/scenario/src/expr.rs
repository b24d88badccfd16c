//! Expressions: sums and products over names, in claims (where a name is a vector of results) and in settings (where it
//! is a number). In the spirit of PromQL: a name may be filtered by labels, `jain_20s{discipline=taq,share<30000}`, and
//! say what to make of seeds, `jain_20s@min`.

mod parse;

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Number(f64),
    Name(Name),
    Call { function: String, arguments: Vec<Self>, at: usize },
    Binary { operator: Operator, left: Box<Self>, right: Box<Self>, at: usize },
    Negative(Box<Self>),
}

/// A name in an expression, with the aggregation and the filters wanted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Name {
    pub name: String,
    pub over: Over,
    pub filters: Vec<Filter>,
    /// Position in the text, counted in characters from 1.
    pub at: usize,
}

/// Rule by which the values of several seeds become one.
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

    /// The comparison at the beginning of `text`, and the length of the comparison's sign.
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

impl Expr {
    /// Reads `text`; an error says at which character what was expected.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        parse::parse(text)
    }
}

/// A sentence about a place in an expression.
pub(crate) fn told(text: &str, at: usize, problem: &str) -> String {
    format!("'{text}', character {at}: {problem}")
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

/// Names of all functions, for errors.
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
    match narrows_settings::nearest(function, all.iter().copied()) {
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
