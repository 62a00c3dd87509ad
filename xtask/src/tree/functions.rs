//! Functions of a Rust source, by their braces.

/// One function with a body.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Where its `fn` stands, in bytes.
    pub at: usize,
    /// Where its body ends, in bytes.
    pub end: usize,
    /// Its arguments, `self` included.
    pub arguments: usize,
}

/// Every function with a body in `code`, nested ones too. `code` has no comments and strings.
#[must_use]
pub fn find(code: &str) -> Vec<Function> {
    super::code::words(code, "fn").filter_map(|at| function(code, at)).collect()
}

/// Where the item ends that begins at `from` with its attributes: at its closing brace or its `;`.
#[must_use]
pub fn item_end(code: &str, from: usize) -> usize {
    let mut depth = 0_i32;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return closing(code, at).unwrap_or(code.len()),
            b';' if depth == 0 => return at,
            _ => {}
        }
    }
    code.len()
}

fn function(code: &str, at: usize) -> Option<Function> {
    let rest = code.get(at + 2..)?;
    let name: String =
        rest.trim_start().chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
    if name.is_empty() {
        return None;
    }
    let open = arguments_open(code, at + 2)?;
    let close = closing(code, open)?;
    let end = item_end(code, close + 1);
    // A declaration without a body, in a trait, ends with its semicolon.
    (code.as_bytes().get(end) == Some(&b'}')).then(|| Function {
        name,
        at,
        end,
        arguments: arguments(code.get(open + 1..close).unwrap_or_default()),
    })
}

/// The bracket that opens the arguments, behind the generics.
fn arguments_open(code: &str, from: usize) -> Option<usize> {
    let bytes = code.as_bytes();
    let mut angles = 0_i32;
    for (at, byte) in bytes.iter().enumerate().skip(from) {
        match byte {
            b'<' => angles += 1,
            b'>' if !is_arrow(bytes, at) => angles -= 1,
            b'(' if angles == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

fn is_arrow(bytes: &[u8], at: usize) -> bool {
    at.checked_sub(1).and_then(|before| bytes.get(before)).is_some_and(|byte| matches!(byte, b'-' | b'='))
}

/// The bracket that closes the one at `open`.
fn closing(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// How many arguments stand between the brackets.
fn arguments(list: &str) -> usize {
    let bytes = list.as_bytes();
    let (mut depth, mut count, mut is_empty) = (0_i32, 0, true);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            b'>' if !is_arrow(bytes, at) => depth -= 1,
            b',' if depth == 0 => {
                count += usize::from(!is_empty);
                is_empty = true;
                continue;
            }
            byte if byte.is_ascii_whitespace() => continue,
            _ => {}
        }
        is_empty = false;
    }
    count + usize::from(!is_empty)
}

#[cfg(test)]
mod tests {
    use super::{find, item_end};

    fn shapes(code: &str) -> Vec<(String, usize)> {
        find(code).into_iter().map(|found| (found.name, found.arguments)).collect()
    }

    #[test]
    fn a_function_has_a_name_arguments_and_a_body() {
        let code = "fn a() {} pub(crate) async fn b<F: Fn(u8, u8) -> u8>(&self, f: F, m: HashMap<u8, [u8; 2]>,) -> (u8, u8) where F: Copy { fn c((a, b): (u8, u8)) {} }";
        assert_eq!(shapes(code), [("a".into(), 0), ("b".into(), 3), ("c".into(), 1)]);
    }

    #[test]
    fn a_type_and_a_declaration_are_no_functions() {
        assert_eq!(shapes("struct A { f: fn(u8) -> u8 } trait B { fn c(&self) -> [u8; 4]; }"), []);
    }

    #[test]
    fn a_function_spans_its_body() {
        let code = "fn a() -> u8 {\n    match b {\n        c => {}\n    }\n}\nfn d() {}";
        assert_eq!(find(code)[0].end, code.find("\nfn d").unwrap() - 1);
    }

    #[test]
    fn an_item_ends_at_its_brace_or_semicolon() {
        assert_eq!(item_end("#[cfg(test)] mod a { b { } } c", 0), 27);
        assert_eq!(item_end("#[cfg(test)] mod a; c", 0), 18);
        assert_eq!(item_end("#[cfg(test)] use a::{b}; c", 0), 22);
    }
}
