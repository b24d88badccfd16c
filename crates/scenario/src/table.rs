//! Dotted keys in tables, replacements from a command line, and expressions put in.

use toml::{Table, Value};

use crate::expr::{self, Expr};
use crate::read::shown;
use crate::{Error, quantity};

/// Deepest chain of settings that refer to one another.
const DEEPEST: usize = 16;

/// Reads a value of a command line: TOML if the text is TOML, else the text itself.
pub(crate) fn value(text: &str) -> Value {
    toml::from_str::<Table>(&format!("v = {text}"))
        .ok()
        .filter(|t| t.len() == 1)
        .and_then(|mut t| t.remove("v"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Finds the value at the dotted `key`: numbers count into arrays from 0, and an element that is a table may be called
/// by its `name`.
pub(crate) fn look<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    if let Some(v) = table.get(key) {
        return Some(v);
    }
    let (first, rest) = key.split_once('.')?;
    rest.split('.').try_fold(table.get(first)?, |at, part| match at {
        Value::Table(t) => t.get(part),
        Value::Array(list) => list.get(place(list, part)?),
        _ => None,
    })
}

/// Removes from the link that `key` is about the keys that stand in one of `groups` with the last part of `key`.
pub(crate) fn forget_others(table: &mut Table, key: &str, groups: &[[&str; 3]]) {
    let ["link", link, last] = key.split('.').collect::<Vec<_>>()[..] else { return };
    let Some(Value::Array(links)) = table.get_mut("link") else { return };
    let Some(Value::Table(link)) = place(links, link).and_then(|at| links.get_mut(at)) else { return };
    for group in groups.iter().filter(|group| group.contains(&last)) {
        group.iter().filter(|other| **other != last).for_each(|other| drop(link.remove(*other)));
    }
}

/// Puts `new` at the dotted `key`; tables that are missing on the way are made, elements of arrays are not.
pub(crate) fn put(table: &mut Table, key: &str, new: Value) -> Result<(), Error> {
    let mut parts = key.split('.');
    // The first part of a split is always there.
    let mut part = parts.next().unwrap_or_default();
    if key.split('.').any(|p| p.trim().is_empty()) {
        return Err(Error::new(key, "is no key: expected names with dots between, as traffic.0.users"));
    }
    // A table for the loop to stand on: the borrow moves down with each part.
    let mut at: &mut Value = match parts.next() {
        None => {
            table.insert(part.to_owned(), new);
            return Ok(());
        }
        Some(next) => {
            let below = table.entry(part).or_insert_with(|| Value::Table(Table::new()));
            part = next;
            below
        }
    };
    loop {
        let next = parts.next();
        let slot = match at {
            Value::Table(t) => {
                if next.is_none() {
                    t.insert(part.to_owned(), new);
                    return Ok(());
                }
                t.entry(part).or_insert_with(|| Value::Table(Table::new()))
            }
            Value::Array(list) => {
                let last = list.len().saturating_sub(1);
                let Some(i) = place(list, part) else {
                    let expected = format!("expected a place from 0 to {last}, or the name of an element");
                    return Err(Error::new(key, format!("there is no '{part}': {expected}")));
                };
                &mut list[i]
            }
            _ => {
                let problem = format!(
                    "what stands before '{part}' is neither a table nor an array: expected the key to end there"
                );
                return Err(Error::new(key, problem));
            }
        };
        match next {
            None => {
                *slot = new;
                return Ok(());
            }
            Some(n) => part = n,
        }
        at = slot;
    }
}

fn place(list: &[Value], part: &str) -> Option<usize> {
    match part.parse::<usize>() {
        Ok(i) => (i < list.len()).then_some(i),
        Err(_) => list.iter().position(|v| v.get("name").and_then(Value::as_str) == Some(part)),
    }
}

/// Puts in the values of expressions: `"=rate/share"` becomes a number, `"fifo:{rate*rtt/4000}"` text. Names are
/// variables of `[vars]` or keys of the file, dotted where they lie deeper.
pub(crate) fn substitute(table: &mut Table) -> Result<(), Error> {
    let scope = table.clone();
    for (key, v) in table.iter_mut().filter(|(k, _)| *k != "about" && *k != "vars") {
        walk(v, key, &scope)?;
    }
    Ok(())
}

fn walk(v: &mut Value, path: &str, scope: &Table) -> Result<(), Error> {
    match v {
        Value::String(text) => {
            if let Some(new) = filled(text, scope).map_err(|e| Error::value(path, shown_text(text), e))? {
                *v = new;
            }
        }
        Value::Table(t) => {
            for (key, v) in t.iter_mut() {
                walk(v, &format!("{path}.{key}"), scope)?;
            }
        }
        Value::Array(list) => {
            for (i, v) in list.iter_mut().enumerate() {
                walk(v, &format!("{path}.{i}"), scope)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn shown_text(text: &str) -> String {
    shown(&Value::String(text.to_owned()))
}

/// Evaluates the expressions in `text`; `None` if it holds none. An error is the end of `expected ...`.
pub(crate) fn filled(text: &str, scope: &Table) -> Result<Option<Value>, String> {
    if let Some(expression) = text.strip_prefix('=') {
        return evaluate(expression, scope, 0).map(|x| Some(tidy(x)));
    }
    if !text.contains('{') {
        return Ok(None);
    }
    let (mut rest, mut new) = (text, String::new());
    while let Some((before, after)) = rest.split_once('{') {
        let (expression, after) = after.split_once('}').ok_or("a closing brace after the expression")?;
        new += before;
        match tidy(evaluate(expression, scope, 0)?) {
            Value::Integer(n) => new += &n.to_string(),
            other => new += &other.to_string(),
        }
        rest = after;
    }
    Ok(Some(Value::String(new + rest)))
}

fn evaluate(text: &str, scope: &Table, depth: usize) -> Result<f64, String> {
    let wrong = |e: String| format!("an expression that can be worked out: {e}");
    if depth > DEEPEST {
        return Err("an expression that does not refer to itself".to_owned());
    }
    let parsed = Expr::parse(text).map_err(wrong)?;
    let mut names = |name: &str| named(name, scope, depth);
    let x = expr::number(&parsed, text, &mut names).map_err(wrong)?;
    if x.is_finite() { Ok(x) } else { Err(format!("an expression with a finite value: '{text}' is {x}")) }
}

fn named(name: &str, scope: &Table, depth: usize) -> Result<f64, String> {
    let vars = scope.get("vars").and_then(Value::as_table);
    let found = vars.and_then(|v| v.get(name)).or_else(|| look(scope, name));
    match found {
        None => {
            let known: Vec<&str> =
                vars.into_iter().flat_map(Table::keys).chain(scope.keys()).map(String::as_str).collect();
            let known = narrows_settings::nearest(name, known)
                .map_or(String::new(), |near| format!("; did you mean '{near}'?"));
            Err(format!("there is no variable or key '{name}'{known}"))
        }
        Some(Value::Integer(n)) => Ok(*n as f64),
        Some(Value::Float(x)) => Ok(*x),
        Some(Value::String(text)) => match text.strip_prefix('=') {
            Some(expression) => evaluate(expression, scope, depth + 1),
            None => quantity::number(text).ok_or_else(|| format!("{name} = '{text}' is no number")),
        },
        Some(_) => Err(format!("{name} is no number")),
    }
}

/// Returns a whole number if `x` is whole but for rounding, else `x`.
fn tidy(x: f64) -> Value {
    let whole = x.round();
    // 2^53: beyond it not every whole number can be told.
    if (x - whole).abs() <= 1e-9 * x.abs() && whole.abs() < 9e15 {
        Value::Integer(whole as i64)
    } else {
        Value::Float(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn keys_reach_into_tables_and_arrays() {
        let mut t = table("a = 1\n[[traffic]]\nusers = 1\n[[traffic]]\nname = \"x\"\nusers = 2\n");
        put(&mut t, "traffic.0.users", value("7")).unwrap();
        put(&mut t, "traffic.x.users", value("8")).unwrap();
        put(&mut t, "tcp.rto.min", value("1s")).unwrap();
        put(&mut t, "seeds", value("[4, 5]")).unwrap();
        assert_eq!(look(&t, "traffic.0.users"), Some(&Value::Integer(7)));
        assert_eq!(look(&t, "traffic.1.users"), Some(&Value::Integer(8)));
        assert_eq!(look(&t, "tcp.rto.min"), Some(&Value::String("1s".to_owned())));
        for (key, says) in [
            ("traffic.7.users", "0 to 1"),
            ("traffic.y", "name of an element"),
            ("a.b.c", "neither a table nor"),
            ("a..b", "names with dots"),
            ("", "names with dots"),
        ] {
            let e = put(&mut t, key, value("1")).unwrap_err().to_string();
            assert!(e.contains(says), "{key}: {e}");
        }
    }

    #[test]
    fn expressions_by_hand() {
        let mut t = table(
            "rate = \"600kbit\"\nrtt = \"190ms..210ms\"\ndiscipline = \"fifo:{rate*rtt/8/500}\"\n\
             flows = \"=rate/share\"\nhalf = \"=flows/240+0.25\"\nabout = \"{not this}\"\n\
             [vars]\nshare = \"=base*5\"\nbase = 1000\n",
        );
        substitute(&mut t).unwrap();
        assert_eq!(t["discipline"].as_str(), Some("fifo:30"));
        assert_eq!(t["flows"].as_integer(), Some(120));
        assert_eq!(t["half"].as_float(), Some(0.75));
        assert_eq!(t["about"].as_str(), Some("{not this}"));
        for (text, says) in [
            ("a = \"=b\"", "no variable or key 'b'"),
            ("a = \"=a\"", "refer to itself"),
            ("a = \"=1/0\"", "finite value"),
            ("a = \"x{1\"", "closing brace"),
            ("a = \"=rat\"\nrate = 1", "did you mean 'rate'"),
            ("a = \"=b\"\nb = \"taq\"", "'taq' is no number"),
            ("a = \"=1+\"", "character 3"),
        ] {
            let e = substitute(&mut table(text)).unwrap_err().to_string();
            assert!(e.starts_with("a = ") && e.contains(says), "{text}: {e}");
        }
    }
}
