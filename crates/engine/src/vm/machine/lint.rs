//! Syntax errors with their place, and two mistakes the interpreter lets pass: a name declared twice, and a source that ends its own wrapper.
use std::ops::ControlFlow;

use boa_ast::{
    function::FunctionBody,
    operations::lexically_declared_names,
    scope::Scope,
    visitor::{VisitWith, Visitor},
};
use boa_interner::{Interner, Sym};
use boa_parser::{Parser, Source};

use super::faults;
use crate::{script, vm::wire::Place};

/// As declarations, not as an expression: a stray `})` is then an error, and a second statement can be seen.
const HEAD: &str = "async function main(){\"use strict\";";

pub(super) fn lint(source: &str) -> Result<(), Place> {
    script::check(source).map_err(|f| Place { message: f.message, line: f.line, column: f.column })?;
    let pad = " ".repeat(super::HEAD.len() - HEAD.len());
    let program = format!("{pad}{HEAD}{}\n}}", script::without_export(source));
    let mut interner = Interner::default();
    let scope = Scope::new_global();
    let parsed = Parser::new(Source::from_bytes(&program)).parse_script(&scope, &mut interner);
    let tree = parsed.map_err(|e| place(&e, source))?;
    if tree.statements().statements().len() != 1 {
        return Err(Place { message: "a closing bracket } too many".into(), line: last_line(source), column: 1 });
    }
    match (Duplicates { interner: &interner }).visit_statement_list(tree.statements()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(name) => {
            let (line, column) = second_declaration(source, &name);
            Err(Place { message: format!("{name} is declared twice"), line, column })
        }
    }
}

fn place(e: &boa_parser::Error, source: &str) -> Place {
    use boa_parser::{Error as E, lexer::Error as L};
    let (message, at) = match e {
        E::Expected { expected, found, span, .. } => {
            let expected: Vec<&str> = expected.iter().map(String::as_str).take(4).collect();
            (format!("expected {}, found {found}", expected.join(" or ")), Some(span.start()))
        }
        E::Unexpected { message, found, span } => {
            let message: &str = message;
            (if message.is_empty() { format!("unexpected {found}") } else { format!("unexpected {found}: {message}") }, Some(span.start()))
        }
        E::General { message, position } => (message.to_string(), Some(*position)),
        E::Lex { err: L::Syntax(message, position) } => (message.to_string(), Some(*position)),
        E::Lex { err: L::IO(e) } => (e.to_string(), None),
        E::AbruptEnd => ("the source ends too early; is a closing bracket, quote or ` missing?".to_owned(), None),
        E::ScopeAnalysis { err } => ((*err).to_owned(), None),
    };
    let last = last_line(source);
    let message = at.and_then(|at| modules(source, at.line_number())).unwrap_or(message);
    match at {
        // What lies behind the source is the wrapper's end.
        Some(at) if at.line_number() <= last => {
            let (line, column) = faults::own_place(at.line_number(), at.column_number()).unwrap_or((1, 1));
            Place { message, line, column }
        }
        Some(_) | None => Place {
            message: if at.is_some() { "the source ends too early; is a closing bracket missing?".to_owned() } else { message },
            line: last,
            column: 1,
        },
    }
}

/// Modules are the likeliest reason for an error in a line that begins like one.
fn modules(source: &str, line: u32) -> Option<String> {
    let text = source.lines().nth((line as usize).saturating_sub(1))?.trim_start();
    if text.starts_with("import ") || text.starts_with("import{") {
        return Some("a Graph cannot import; everything it may use is in scope".to_owned());
    }
    text.starts_with("export ").then(|| "a Graph cannot export anything but its meta, at the top; end it with return".to_owned())
}

fn last_line(source: &str) -> u32 {
    u32::try_from(source.lines().count().max(1)).unwrap_or(u32::MAX)
}

/// Where a name is declared for the second time, by looking at the text; line 1 where it cannot be told.
fn second_declaration(source: &str, name: &str) -> (u32, u32) {
    let mut seen = 0;
    for (i, line) in source.lines().enumerate() {
        for word in ["let ", "const ", "class "] {
            if let Some(at) = line.find(&format!("{word}{name}")) {
                let after = line[at + word.len() + name.len()..].chars().next();
                if after.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$') {
                    continue;
                }
                seen += 1;
                if seen == 2 {
                    let column = line[..at].chars().count() + word.len() + 1;
                    return (u32::try_from(i + 1).unwrap_or(1), u32::try_from(column).unwrap_or(1));
                }
            }
        }
    }
    (1, 1)
}

/// Finds a `let`, `const` or `class` whose name the same block already has.
struct Duplicates<'a> {
    interner: &'a Interner,
}

impl Duplicates<'_> {
    fn first_twice(&self, names: Vec<Sym>) -> ControlFlow<String> {
        let mut seen = std::collections::HashSet::new();
        for name in names {
            if !seen.insert(name) {
                return ControlFlow::Break(self.interner.resolve_expect(name).to_string());
            }
        }
        ControlFlow::Continue(())
    }
}

impl<'ast> Visitor<'ast> for Duplicates<'_> {
    type BreakTy = String;

    fn visit_function_body(&mut self, body: &'ast FunctionBody) -> ControlFlow<String> {
        self.first_twice(lexically_declared_names(body))?;
        body.visit_with(self)
    }
}
