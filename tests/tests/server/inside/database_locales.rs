//! Texts under the collation of their database, for each kind of locale that the server has: case is folded as the
//! server does it there, and bounds are kept only where texts are compared byte by byte.
use super::text_cases::{search_parts, search_start, search_words, value};
use super::{Inside, live};
use crate::registry::on_shared;
use crate::shared::{Database, server};
use fastrand::Rng;
use libtest_mimic::Completion;
use pg_skip_tests::compare::{self, Question, sound};
use pg_skip_tests::seed;

on_shared!(libc = in_locale("LOCALE_PROVIDER libc LOCALE 'C.utf8'", false));
on_shared!(icu_root = in_locale("LOCALE_PROVIDER icu ICU_LOCALE 'und' LOCALE 'C'", false));
on_shared!(icu_turkish = in_locale("LOCALE_PROVIDER icu ICU_LOCALE 'tr-TR' LOCALE 'C'", false));
on_shared!(icu_lithuanian = in_locale("LOCALE_PROVIDER icu ICU_LOCALE 'lt' LOCALE 'C'", false));
on_shared!(icu_greek = in_locale("LOCALE_PROVIDER icu ICU_LOCALE 'el' LOCALE 'C'", false));
on_shared!(builtin = in_locale("LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LOCALE 'C'", true));
on_shared!(
    builtin_full = in_locale("LOCALE_PROVIDER builtin BUILTIN_LOCALE 'PG_UNICODE_FAST' LOCALE 'C'", true)
);

/// `compares_bytes` tells whether bounds can be had.
fn in_locale(database: &Database, locale: &str, compares_bytes: bool) -> Completion {
    let name = format!("{}_locale", database.name);
    let create = format!("CREATE DATABASE {name} ENCODING 'UTF8' {locale} TEMPLATE template0");
    if let Err(error) = database.session().try_rows(&create) {
        // Older servers lack the builtin provider or one of its locales; machines, the locale of libc.
        let message =
            error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned());
        let lacks = ["unrecognized locale provider", "builtin locale", "invalid locale name", "invalid LC_"];
        let lacks_option = message.contains("not recognized") || message.contains("unrecognized");
        assert!(lacks_option || lacks.iter().any(|text| message.contains(text)), "{create}: {message}");
        return Completion::ignored_with(format!("this server has no {locale}"));
    }
    let mut session = server().connect(&name);
    session.run("CREATE EXTENSION pg_skip");
    for (first, indexed, search) in [
        (0, "v text_ngram_skip_ops (n = 3, fold_case = on)", search_parts as fn(&mut Rng) -> _),
        (1 << 32, "v text_token_skip_ops (fold_case = on)", search_words),
        (2 << 32, "v text_prefix_skip_ops (length = 3)", search_start),
    ] {
        let inside = Inside { name: "inside::database_locales", kind: "text", indexed, value, search };
        live(&mut session, &inside, first);
    }
    session.run("DROP TABLE t; CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, v text)");
    let mut rng = Rng::with_seed(seed());
    for _ in 0..40 {
        let values: Vec<String> = (0..50).map(|_| format!("({})", value(&mut rng))).collect();
        session.run(&format!("INSERT INTO t (v) VALUES {}", values.join(", ")));
    }
    let index = "CREATE INDEX t_v ON t USING skip (v text_minmax_skip_ops) WITH (pages_per_range = 1)";
    if compares_bytes {
        session.run(index);
        for _ in 0..20 {
            let (one, two) = (value(&mut rng), value(&mut rng));
            compare::same(&mut session, "t", &Question::any(format!("v < {one}")));
            compare::same(&mut session, "t", &Question::any(format!("v >= {one} AND v <= {two}")));
        }
        sound(&mut session, "t_v");
    } else {
        assert_eq!(session.error(index).code().code(), "0A000");
    }
    Completion::Completed
}
