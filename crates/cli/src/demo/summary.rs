//! What the demo says at its end: what each delay has cost, that nothing is missing, and how to go on. Pure.

use super::picture::{Delay, Facts, Picture};
use super::text::{Line, Look, count, delay, seconds, share, wrap};

/// The last lines, none wider than `width` if words can be broken there.
pub fn lines(facts: &Facts, picture: &Picture, width: usize) -> Vec<Line> {
    let head = format!("{} clicks in {}, counted under each delay:", picture.sent, seconds(picture.elapsed_ms));
    let mut lines = vec![Line::of(Look::Strong, head), Line::new()];
    lines.extend(table(picture, width));
    lines.push(Line::new());
    lines.push(Line::of(Look::Dim, "  delay   sent = counted + lost + open"));
    lines.extend(picture.delays.iter().map(|d| balance(picture, d)));
    lines.push(Line::new());
    lines.extend(moral(facts, picture).iter().flat_map(|text| wrap(text, width)).map(|l| Line::of(Look::Plain, l)));
    lines.push(Line::new());
    lines.push(Line::of(Look::Strong, "Go on:"));
    for (command, what) in [
        ("tidegate demo lab", "the same question in 41 clicks, each explained"),
        ("tidegate demo --script > delays.sql", "this script; put your Kafka's address into it, then"),
        ("tidegate run delays.sql", "run it"),
        ("tidegate sql", "type statements of your own"),
    ] {
        let line = Line::of(Look::Plain, format!("  {command:<37}"));
        let whole = line.add(Look::Dim, what);
        match whole.width() <= width {
            true => lines.push(whole),
            false => lines
                .extend([Line::of(Look::Plain, format!("  {command}")), Line::of(Look::Dim, format!("    {what}"))]),
        }
    }
    lines
}

/// What each delay has cost.
fn table(picture: &Picture, width: usize) -> Vec<Line> {
    let wide = width >= 72;
    let head = match wide {
        true => "  delay   windows   counted             lost       open   result comes after",
        false => "  delay   counted     lost   after",
    };
    let mut lines = vec![Line::of(Look::Dim, head)];
    for d in &picture.delays {
        let after = d.result_after_ms.map_or("-".to_owned(), seconds);
        let look = if d.lost == 0 { Look::Good } else { Look::Bad };
        let (delay, counted, part) = (delay(d.delay_ms), count(d.counted), share(d.lost, d.lost + d.counted));
        let line = Line::of(Look::Plain, format!("  {delay:<6}"));
        lines.push(match wide {
            true => line
                .add(Look::Plain, format!("  {:>7}   {counted:>7}", d.closed))
                .add(look, format!("   {:>5} = {part:>7}", count(d.lost)))
                .add(Look::Plain, format!("   {:>6}   {after:>18}", count(d.open))),
            false => line
                .add(Look::Plain, format!("  {counted:>7}"))
                .add(look, format!("  {part:>7}"))
                .add(Look::Plain, format!("  {after:>6}")),
        });
    }
    lines
}

/// That no click is missing, or that some are.
fn balance(picture: &Picture, d: &Delay) -> Line {
    let sum = format!("  {:<6}  {} = {} + {} + {}", delay(d.delay_ms), picture.sent, d.counted, d.lost, d.open);
    match d.balances() && d.read == picture.sent {
        true => Line::of(Look::Plain, sum),
        false => Line::of(Look::Warn, format!("{sum}, but {} were read", d.read)),
    }
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
        let lines: Vec<String> = lines(&facts(), picture, 100).iter().map(|l| l.paint(false)).collect();
        lines.join("\n")
    }

    #[test]
    fn the_balance_is_shown_and_a_wrong_one_is_not_hidden() {
        let mut picture = sample();
        picture.sent = 600;
        picture.delays[1].lost = 16;
        let said = text(&picture);
        assert!(said.contains("  0 s           2       430      80 =  15.7 %       90                0.1 s"), "{said}");
        assert!(said.contains("  0 s     600 = 430 + 80 + 90\n"), "{said}");
        assert!(said.contains("  2 s     600 = 244 + 16 + 340\n"), "{said}");
        picture.delays[1].lost = 6;
        assert!(text(&picture).contains("340, but 600 were read"), "{}", text(&picture));
    }

    #[test]
    fn narrow_terminals_are_kept_to() {
        let lines = lines(&facts(), &sample(), 50);
        let wide: Vec<String> = lines.iter().filter(|l| l.width() > 60).map(|l| l.text()).collect();
        assert_eq!(wide, Vec::<String>::new());
        assert!(lines.iter().any(|l| l.text() == "  0 s         430   15.7 %   0.1 s"));
    }
}
