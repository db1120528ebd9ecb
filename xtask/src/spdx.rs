//! Licence expressions: `MIT OR (Apache-2.0 WITH LLVM-exception AND ISC)`.
//!
//! Owns reading one and asking whether a list of licences satisfies it. The old
//! `MIT/Apache-2.0` reads as OR.

/// Whether some choice the expression offers has only allowed licences.
/// An expression that cannot be read is not satisfied.
pub(crate) fn satisfied(expression: &str, allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any(&mut rest, allowed) == Some(true) && rest.is_empty()
}

/// `a OR b`, the loosest. None: not an expression.
fn any(rest: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut good = all(rest, allowed)?;
    while let ["OR", tail @ ..] = *rest {
        *rest = tail;
        good |= all(rest, allowed)?;
    }
    Some(good)
}

fn all(rest: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut good = one(rest, allowed)?;
    while let ["AND", tail @ ..] = *rest {
        *rest = tail;
        good &= one(rest, allowed)?;
    }
    Some(good)
}

fn one(rest: &mut &[&str], allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    match *rest {
        ["(", tail @ ..] => {
            *rest = tail;
            let good = any(rest, allowed)?;
            let [")", tail @ ..] = *rest else { return None };
            *rest = tail;
            Some(good)
        }
        [licence, "WITH", exception, tail @ ..] => {
            *rest = tail;
            Some(allowed(&format!("{licence} WITH {exception}")))
        }
        [")" | "OR" | "AND" | "WITH", ..] | [] => None,
        [licence, tail @ ..] => {
            *rest = tail;
            Some(allowed(licence))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::satisfied;

    #[test]
    fn expressions_offer_choices() {
        let allowed = |id: &str| ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].contains(&id);
        for (expression, good) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0/MIT", true),
            ("MIT AND GPL-3.0", false),
            ("MIT AND (GPL-3.0 OR ISC)", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", false),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("Apache-2.0 WITH Other", false),
            ("GPL-3.0 OR MIT AND ISC", true),
            ("", false),
            ("MIT OR", false),
            ("(MIT", false),
            ("MIT MIT", false),
        ] {
            assert_eq!(satisfied(expression, &allowed), good, "{expression}");
        }
    }
}
