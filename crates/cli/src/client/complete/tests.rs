use super::*;

fn vocabulary() -> Vocabulary {
    let object = |name: &str, is_view, columns: &[(&str, &str)]| NamedObject {
        name: name.into(),
        is_view,
        columns: columns.iter().map(|(n, t)| ((*n).into(), (*t).into())).collect(),
    };
    Vocabulary {
        objects: vec![
            object("clicks", false, &[("user_id", "BIGINT"), ("url", "STRING"), ("ts", "TIMESTAMP(3)")]),
            object("clicks_view", true, &[("total", "BIGINT")]),
            object("other.users", false, &[("name", "STRING")]),
        ],
        settings: vec!["my.key".into()],
    }
}

/// What is offered where `|` stands.
fn offered(text: &str) -> Vec<String> {
    let at = text.find('|').expect("a cursor");
    let text = text.replacen('|', "", 1);
    candidates(&vocabulary(), &text, at).1.into_iter().map(|c| c.text).collect()
}

#[track_caller]
fn offers(text: &str, wanted: &[&str]) {
    let found = offered(text);
    for word in wanted {
        assert!(found.iter().any(|f| f == word), "no {word} for {text}: {found:?}");
    }
}

#[test]
fn a_statement_starts_with_its_verb() {
    assert_eq!(offered("sel|"), ["select"]);
    assert_eq!(offered("CREATE TABLE x (a INT); CR|"), ["CREATE"]);
    assert!(offered("|").len() > 10);
    assert_eq!(offered("show ta|"), ["tables"]);
}

#[test]
fn tables_follow_from_and_the_like() {
    assert_eq!(offered("SELECT * FROM cl|"), ["clicks", "clicks_view"]);
    assert_eq!(offered("describe |"), ["clicks", "clicks_view", "other.users"]);
    assert_eq!(offered("INSERT INTO o|"), ["other.users"]);
    assert_eq!(offered("SELECT * FROM other.|"), ["users"]);
}

#[test]
fn columns_are_those_of_the_tables_that_the_statement_names() {
    assert_eq!(offered("SELECT us| FROM clicks"), ["user_id", "use", "using"]);
    assert_eq!(offered("SELECT | FROM clicks"), ["user_id", "url", "ts"]);
    assert_eq!(offered("SELECT c.u| FROM clicks AS c"), ["user_id", "url"]);
    assert_eq!(offered("SELECT clicks.t| FROM clicks"), ["ts"]);
    assert_eq!(offered("SELECT u.| FROM clicks c, other.users u"), ["name"]);
    assert_eq!(offered("SELECT name| FROM clicks"), Vec::<String>::new());
    offers("SELECT cou| FROM clicks", &["count("]);
    offers("SELECT CURRENT_T| FROM clicks", &["CURRENT_TIMESTAMP"]);
    offers("SELECT url FROM clicks WH|", &["WHERE", "WHEN"]);
}

#[test]
fn strings_of_set_are_settings_and_their_values() {
    offers("SET 'table.d|", &["table.dml-sync'", "table.display.max-column-width'"]);
    offers("SET 'table.d|'", &["table.dml-sync"]);
    assert_eq!(offered("RESET 'my|"), ["my.key'"]);
    assert_eq!(offered("SET 'sql-client.execution.result-mode' = 'table|"), ["table'", "tableau'"]);
}

#[test]
fn options_follow_the_connector_and_the_format() {
    let with = "CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'format' = 'json', '";
    offers(&format!("{with}to|"), &["topic'", "topic-pattern'"]);
    assert_eq!(offered(&format!("{with}json.ig|")), ["json.ignore-parse-errors'"]);
    assert!(!offered(&format!("{with}|")).contains(&"connector'".to_owned()), "it is given already");
    assert_eq!(offered("CREATE TABLE t (a INT) WITH ('connector' = 'files|"), ["filesystem'"]);
    assert_eq!(offered("SELECT 'to|"), Vec::<String>::new());
}

#[test]
fn comments_are_left_alone() {
    assert_eq!(offered("SELECT 1 -- fr|"), Vec::<String>::new());
    assert_eq!(offered("/* sel|"), Vec::<String>::new());
    offers("/* c */ sel|", &["select"]);
    offers("-- c\nsel|", &["select"]);
}

#[test]
fn what_is_replaced_starts_at_the_word() {
    assert_eq!(candidates(&vocabulary(), "SELECT é, us FROM clicks", 13).0, 11);
    assert_eq!(candidates(&vocabulary(), "SET 'ta", 7).0, 5);
}
