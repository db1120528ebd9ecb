//! What a test log says, as the SWE-bench harness reads it: its parsers under their names.
//!
//! Owns the registry. The results are swebench 4.1.0's and 5.0.2's to the last key, faults
//! included: what looks odd in here is odd there. A reading that one can trust is in
//! `crate::suite`.

#![expect(clippy::unnecessary_wraps, reason = "all parsers have one type")]

mod javascript;
mod native;
mod python;

use indexmap::IndexMap;

use super::Dialect;

/// Test name to status word, in the order of the log. The words are mostly `PASSED`, `FAILED`, `SKIPPED`, `ERROR`
/// and `XFAIL`, but some parsers take whatever stands there.
pub type StatusMap = IndexMap<String, String>;

/// What a few parsers want to know besides the log.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Whose reading.
    pub dialect: Dialect,
    /// The instance: two projects changed their runner.
    pub instance_id: &'a str,
    /// The instance's version: two others did.
    pub version: Option<&'a str>,
}

/// A log on which the harness's parser raises an exception.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the log cannot be parsed: {0}")]
pub struct LogFault(pub(crate) String);

impl LogFault {
    /// A line that lacks a part which the parser takes for granted.
    fn index(line: &str) -> Self {
        Self(format!("`{line}` names no test"))
    }
}

type Parse = fn(&str, Context<'_>) -> Result<StatusMap, LogFault>;

/// A log parser of the harness.
#[derive(Clone, Copy, Debug)]
pub struct Parser {
    /// Its name, as the column `log_parser` has it.
    pub name: &'static str,
    parse: Parse,
}

impl Parser {
    /// The parser of this name.
    pub fn named(name: &str) -> Option<Self> {
        let (name, parse) = PARSERS.iter().find(|(own, _)| *own == name)?;
        Some(Self { name, parse: *parse })
    }

    /// The parser that version 4 uses for a repository, by its name on GitHub.
    pub fn of_repo(repo: &str) -> Option<Self> {
        let (_, name) = REPOS.iter().find(|(own, _)| *own == repo)?;
        Self::named(name)
    }

    /// All names, sorted.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PARSERS.iter().map(|(name, _)| *name)
    }

    /// The status of each test that the log names.
    pub fn parse(self, log: &str, context: Context<'_>) -> Result<StatusMap, LogFault> {
        (self.parse)(log, context)
    }
}

/// The last word on a test counts.
fn put(map: &mut StatusMap, test: &str, status: &str) {
    match map.get_mut(test) {
        Some(known) => status.clone_into(known),
        None => {
            map.insert(test.to_owned(), status.to_owned());
        }
    }
}

const PARSERS: &[(&str, Parse)] = &[
    ("parse_log_ant", native::ant),
    ("parse_log_astroid", python::pytest),
    ("parse_log_astropy", python::pytest_v2),
    ("parse_log_bpmn_js", javascript::bpmn_js),
    ("parse_log_calypso", javascript::calypso),
    ("parse_log_carbon", javascript::carbon),
    ("parse_log_cargo", native::cargo),
    ("parse_log_chart_js", javascript::chart_js),
    ("parse_log_cucumber", native::cucumber),
    ("parse_log_cypress", javascript::cypress),
    ("parse_log_django", python::django),
    ("parse_log_doctest", native::doctest),
    ("parse_log_emotion", javascript::emotion),
    ("parse_log_eslint", javascript::eslint),
    ("parse_log_flask", python::pytest),
    ("parse_log_googletest", native::googletest),
    ("parse_log_gotest", native::go),
    ("parse_log_gradle_custom", native::gradle),
    ("parse_log_grommet", javascript::grommet),
    ("parse_log_highlightjs", javascript::highlightjs),
    ("parse_log_immutable_js", javascript::immutable_js),
    ("parse_log_jekyll", native::jekyll),
    ("parse_log_jest", javascript::jest),
    ("parse_log_jest_json", javascript::jest_json),
    ("parse_log_jq", native::jq),
    ("parse_log_karma", javascript::karma),
    ("parse_log_lighthouse", javascript::lighthouse),
    ("parse_log_marked", javascript::marked),
    ("parse_log_marshmallow", python::pytest),
    ("parse_log_matplotlib", python::matplotlib),
    ("parse_log_maven", native::maven),
    ("parse_log_micropython_test", native::micropython),
    ("parse_log_minitest", native::minitest),
    ("parse_log_next", javascript::next),
    ("parse_log_openlayers", javascript::openlayers),
    ("parse_log_p5js", javascript::p5js),
    ("parse_log_phpunit", native::phpunit),
    ("parse_log_prettier", javascript::carbon),
    ("parse_log_prismjs", javascript::prismjs),
    ("parse_log_pvlib", python::pytest),
    ("parse_log_pydicom", python::pytest_options),
    ("parse_log_pylint", python::pytest_options),
    ("parse_log_pytest", python::pytest),
    ("parse_log_pytest_options", python::pytest_options),
    ("parse_log_pytest_v2", python::pytest_v2),
    ("parse_log_pyvista", python::pytest),
    ("parse_log_quarto_cli", javascript::quarto),
    ("parse_log_react_pdf", javascript::carbon),
    ("parse_log_redis", native::redis),
    ("parse_log_requests", python::pytest_options),
    ("parse_log_rspec_transformed_json", native::rspec),
    ("parse_log_ruby_unit", native::ruby_unit),
    ("parse_log_scikit", python::pytest_v2),
    ("parse_log_scratch_gui", javascript::carbon),
    ("parse_log_seaborn", python::seaborn),
    ("parse_log_sphinx", python::pytest_v2),
    ("parse_log_sqlfluff", python::pytest),
    ("parse_log_sympy", python::sympy),
    ("parse_log_tap", javascript::tap),
    ("parse_log_vitest", javascript::vitest),
    ("parse_log_xarray", python::pytest),
    ("parse_plotly_js", javascript::plotly),
];

const REPOS: &[(&str, &str)] = &[
    ("alibaba-fusion/next", "parse_log_next"),
    ("apache/druid", "parse_log_maven"),
    ("apache/lucene", "parse_log_gradle_custom"),
    ("astral-sh/ruff", "parse_log_cargo"),
    ("astropy/astropy", "parse_log_astropy"),
    ("Automattic/wp-calypso", "parse_log_calypso"),
    ("axios/axios", "parse_log_tap"),
    ("babel/babel", "parse_log_jest"),
    ("bpmn-io/bpmn-js", "parse_log_bpmn_js"),
    ("briannesbitt/carbon", "parse_log_phpunit"),
    ("burntsushi/ripgrep", "parse_log_cargo"),
    ("caddyserver/caddy", "parse_log_gotest"),
    ("carbon-design-system/carbon", "parse_log_carbon"),
    ("chartjs/Chart.js", "parse_log_chart_js"),
    ("cypress-io/cypress", "parse_log_cypress"),
    ("diegomura/react-pdf", "parse_log_react_pdf"),
    ("django/django", "parse_log_django"),
    ("emotion-js/emotion", "parse_log_emotion"),
    ("eslint/eslint", "parse_log_eslint"),
    ("facebook/docusaurus", "parse_log_jest"),
    ("faker-ruby/faker", "parse_log_ruby_unit"),
    ("fastlane/fastlane", "parse_log_rspec_transformed_json"),
    ("fluent/fluentd", "parse_log_ruby_unit"),
    ("fmtlib/fmt", "parse_log_googletest"),
    ("gin-gonic/gin", "parse_log_gotest"),
    ("gohugoio/hugo", "parse_log_gotest"),
    ("google/gson", "parse_log_maven"),
    ("GoogleChrome/lighthouse", "parse_log_lighthouse"),
    ("grommet/grommet", "parse_log_grommet"),
    ("hashicorp/terraform", "parse_log_gotest"),
    ("highlightjs/highlight.js", "parse_log_highlightjs"),
    ("immutable-js/immutable-js", "parse_log_immutable_js"),
    ("javaparser/javaparser", "parse_log_maven"),
    ("jekyll/jekyll", "parse_log_jekyll"),
    ("jordansissel/fpm", "parse_log_rspec_transformed_json"),
    ("jqlang/jq", "parse_log_jq"),
    ("laravel/framework", "parse_log_phpunit"),
    ("markedjs/marked", "parse_log_marked"),
    ("marshmallow-code/marshmallow", "parse_log_marshmallow"),
    ("matplotlib/matplotlib", "parse_log_matplotlib"),
    ("micropython/micropython", "parse_log_micropython_test"),
    ("mrdoob/three.js", "parse_log_tap"),
    ("mwaskom/seaborn", "parse_log_seaborn"),
    ("nlohmann/json", "parse_log_doctest"),
    ("nushell/nushell", "parse_log_cargo"),
    ("openlayers/openlayers", "parse_log_openlayers"),
    ("pallets/flask", "parse_log_flask"),
    ("php-cs-fixer/php-cs-fixer", "parse_log_phpunit"),
    ("phpoffice/phpspreadsheet", "parse_log_phpunit"),
    ("plotly/plotly.js", "parse_plotly_js"),
    ("preactjs/preact", "parse_log_karma"),
    ("prettier/prettier", "parse_log_prettier"),
    ("PrismJS/prism", "parse_log_prismjs"),
    ("processing/p5.js", "parse_log_p5js"),
    ("projectlombok/lombok", "parse_log_ant"),
    ("prometheus/prometheus", "parse_log_gotest"),
    ("psf/requests", "parse_log_requests"),
    ("pvlib/pvlib-python", "parse_log_pvlib"),
    ("pydata/xarray", "parse_log_xarray"),
    ("pydicom/pydicom", "parse_log_pydicom"),
    ("pylint-dev/astroid", "parse_log_astroid"),
    ("pylint-dev/pylint", "parse_log_pylint"),
    ("pytest-dev/pytest", "parse_log_pytest"),
    ("pyvista/pyvista", "parse_log_pyvista"),
    ("quarto-dev/quarto-cli", "parse_log_quarto_cli"),
    ("reactivex/rxjava", "parse_log_gradle_custom"),
    ("redis/redis", "parse_log_redis"),
    ("rubocop/rubocop", "parse_log_rspec_transformed_json"),
    ("scikit-learn/scikit-learn", "parse_log_scikit"),
    ("scratchfoundation/scratch-gui", "parse_log_scratch_gui"),
    ("sharkdp/bat", "parse_log_cargo"),
    ("sphinx-doc/sphinx", "parse_log_sphinx"),
    ("sqlfluff/sqlfluff", "parse_log_sqlfluff"),
    ("sympy/sympy", "parse_log_sympy"),
    ("tokio-rs/axum", "parse_log_cargo"),
    ("tokio-rs/tokio", "parse_log_cargo"),
    ("uutils/coreutils", "parse_log_cargo"),
    ("valkey-io/valkey", "parse_log_redis"),
    ("vuejs/core", "parse_log_vitest"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_repositories_have_a_parser() {
        assert!(PARSERS.is_sorted_by_key(|(name, _)| *name));
        for (repo, name) in REPOS {
            assert!(Parser::of_repo(repo).is_some(), "{repo}: {name}");
        }
        assert!(Parser::named("parse_log_none").is_none());
    }

    #[test]
    fn an_empty_log_has_no_tests() {
        for name in Parser::names() {
            let parser = Parser::named(name).unwrap();
            for dialect in [Dialect::V4, Dialect::V5] {
                let context = Context { dialect, instance_id: "a__a-2006", version: Some("1.27") };
                if let Ok(map) = parser.parse("", context) {
                    assert_eq!(map, StatusMap::new(), "{name}");
                }
            }
        }
    }
}
