//! What the demo says at its end: what each delay has cost, that nothing is missing, and how to go on. Pure.

use super::picture::{Facts, Picture};
use super::text::{Line, Look, count, delay, seconds, share};

/// The last lines.
pub fn lines(facts: &Facts, picture: &Picture) -> Vec<Line> {
    let plain = |text: String| Line::of(Look::Plain, text);
    let mut lines = vec![
        Line::of(
            Look::Strong,
            format!("{} clicks in {}, counted three times:", picture.sent, seconds(picture.elapsed_ms)),
        ),
        Line::new(),
        Line::of(Look::Dim, "  delay   windows   counted      lost               open   result after"),
    ];
    for d in &picture.delays {
        let after = d.result_after_ms.map_or("-".to_owned(), seconds);
        let lost = format!("{:>6}  {:>7}", count(d.lost), share(d.lost, d.lost + d.counted));
        lines.push(
            plain(format!("  {:<6}  {:>7}   {:>7}   ", delay(d.delay_ms), d.closed, count(d.counted)))
                .add(if d.lost == 0 { Look::Good } else { Look::Bad }, lost)
                .add(Look::Plain, format!("   {:>9}   {after:>12}", count(d.open))),
        );
    }
    lines.push(Line::new());
    for d in &picture.delays {
        let sum = format!("{} sent = {} counted + {} lost + {} open", picture.sent, d.counted, d.lost, d.open);
        let label = format!("  {:<6}  ", delay(d.delay_ms));
        lines.push(match d.balances() && d.read == picture.sent {
            true => plain(label).add(Look::Plain, sum),
            false => plain(label).add(Look::Warn, format!("{sum} does not add up: {} were read so far", d.read)),
        });
    }
    lines.push(Line::new());
    lines.extend(moral(facts, picture).into_iter().map(plain));
    lines.push(Line::new());
    lines.push(Line::of(Look::Strong, "Go on:"));
    for (command, what) in [
        ("tidegate demo lab", "the same question in 41 events, each explained"),
        ("tidegate demo --script > delays.sql", "this script; put your Kafka's address into it, then"),
        ("tidegate run delays.sql", "run it"),
        ("tidegate sql", "type statements of your own"),
    ] {
        lines.push(plain(format!("  {command:<37}")).add(Look::Dim, what));
    }
    lines
}

/// What to learn from the numbers.
fn moral(facts: &Facts, picture: &Picture) -> Vec<String> {
    let mut said = Vec::new();
    let enough = picture.delays.iter().find(|d| d.delay_ms >= facts.disorder_ms);
    if let Some(d) = enough.filter(|d| d.lost == 0 && d.closed > 0) {
        said.push(format!(
            "Clicks came up to {} late, so a delay of {} lost nothing; a shorter one answers sooner and loses some.",
            delay(facts.disorder_ms),
            delay(d.delay_ms)
        ));
    }
    if picture.delays.iter().any(|d| d.open > 0) {
        said.push(
            "Windows that are open wait for a click after their end: without one, event time stands still.".into(),
        );
    }
    said
}

#[cfg(test)]
mod tests {
    use super::super::picture::tests::{facts, sample};
    use super::*;

    fn text(picture: &Picture) -> String {
        let lines: Vec<String> = lines(&facts(), picture).iter().map(|l| l.paint(false)).collect();
        lines.join("\n")
    }

    #[test]
    fn the_balance_is_shown_and_a_wrong_one_is_not_hidden() {
        let mut picture = sample();
        picture.sent = 600;
        picture.delays[1].lost = 16;
        let said = text(&picture);
        assert!(said.contains("  0 s           2       430       80   15.7 %          90          0.1 s"), "{said}");
        assert!(said.contains("600 sent = 430 counted + 80 lost + 90 open\n"), "{said}");
        assert!(said.contains("16 lost + 340 open\n"), "{said}");
        picture.delays[1].lost = 6;
        assert!(text(&picture).contains("does not add up: 600 were read so far"), "{}", text(&picture));
    }
}
