use proptest::prelude::*;
use tidegate_api::config::Configuration;

use super::*;

fn config(pairs: &[(&str, &str)]) -> Configuration {
    let mut config = Configuration::default();
    for (key, value) in pairs {
        config.set(*key, *value);
    }
    config
}

fn strategy(pairs: &[(&str, &str)]) -> RestartStrategy {
    RestartStrategy::from_config(&config(pairs), true).expect("a strategy")
}

/// The waits for failures at these times; -1 is giving up, negative offsets from -10 joined waits.
fn waits(strategy: RestartStrategy, times: &[i64]) -> Vec<String> {
    let mut backoff = Backoff::new(strategy);
    times
        .iter()
        .map(|now| match backoff.failure(*now, 0.5) {
            Verdict::RestartAfter(ms) => format!("{ms}"),
            Verdict::Joined(ms) => format!("joined {ms}"),
            Verdict::GiveUp { .. } => "give up".to_owned(),
        })
        .collect()
}

#[test]
fn unset_depends_on_checkpoints() {
    let unset = config(&[]);
    assert_eq!(RestartStrategy::from_config(&unset, false).unwrap(), RestartStrategy::None);
    assert_eq!(
        RestartStrategy::from_config(&unset, true).unwrap().to_string(),
        "ExponentialDelayRestartBackoffTimeStrategy(initialBackoffMS=1000, maxBackoffMS=60000, backoffMultiplier=1.5, \
         resetBackoffThresholdMS=3600000, jitterFactor=0.1, attemptsBeforeResetBackoff=2147483647)"
    );
}

#[test]
fn names_and_aliases_are_flinks() {
    for name in ["none", "off", "disable", "NONE"] {
        assert_eq!(strategy(&[("restart-strategy.type", name)]), RestartStrategy::None, "{name}");
    }
    assert_eq!(
        strategy(&[("restart-strategy", "fixed-delay"), ("restart-strategy.fixed-delay.attempts", "3")]),
        RestartStrategy::FixedDelay { attempts: 3, delay_ms: 1_000 }
    );
    assert_eq!(
        strategy(&[("restart-strategy.type", "failurerate")]),
        RestartStrategy::FailureRate { max_failures: 1, interval_ms: 60_000, delay_ms: 1_000 }
    );
}

#[test]
fn wrong_settings_name_the_key() {
    for (pairs, word) in [
        (&[("restart-strategy.type", "sometimes")][..], "sometimes"),
        (&[("restart-strategy.exponential-delay.backoff-multiplier", "1")], "backoff-multiplier"),
        (&[("restart-strategy.exponential-delay.jitter-factor", "2")], "jitter-factor"),
        (&[("restart-strategy.exponential-delay.initial-backoff", "2 min")], "initial-backoff"),
        (&[("restart-strategy.exponential-delay.attempts-before-reset-backoff", "0")], "at least 1"),
        (
            &[("restart-strategy", "failure-rate"), ("restart-strategy.failure-rate.max-failures-per-interval", "0")],
            "greater than 0",
        ),
    ] {
        let error = RestartStrategy::from_config(&config(pairs), true).expect_err("refused");
        assert!(error.message.contains(word), "{}", error.message);
    }
}

#[test]
fn none_gives_up_with_flinks_words() {
    let verdict = Backoff::new(RestartStrategy::None).failure(0, 0.5);
    let reason = "Recovery is suppressed by NoRestartBackoffTimeStrategy".to_owned();
    assert_eq!(verdict, Verdict::GiveUp { reason });
}

#[test]
fn fixed_delay_counts_over_the_jobs_life() {
    let fixed = RestartStrategy::FixedDelay { attempts: 2, delay_ms: 70 };
    assert_eq!(waits(fixed, &[0, 1_000_000, 2_000_000]), ["70", "70", "give up"]);
}

#[test]
fn failure_rate_looks_at_the_last_failures_only() {
    let rate = RestartStrategy::FailureRate { max_failures: 2, interval_ms: 100, delay_ms: 7 };
    assert_eq!(waits(rate.clone(), &[0, 10, 101, 111, 202]), ["7", "7", "7", "7", "7"]);
    assert_eq!(waits(rate, &[0, 10, 100]), ["7", "7", "give up"]);
}

#[test]
fn exponential_delay_grows_joins_and_resets() {
    let exponential = strategy(&[("restart-strategy.exponential-delay.reset-backoff-threshold", "1 min")]);
    assert_eq!(
        waits(exponential, &[0, 400, 2_000, 4_000, 80_000, 81_001]),
        ["1000", "joined 600", "1500", "2250", "1000", "1500"]
    );
    let two = strategy(&[("restart-strategy.exponential-delay.attempts-before-reset-backoff", "2")]);
    assert_eq!(waits(two, &[0, 2_000, 5_000]), ["1000", "1500", "give up"]);
}

proptest! {
    #[test]
    fn waits_stay_within_their_bounds(
        initial in 1i64..10_000, factor in 1i64..100, multiplier in 1.01f64..10.0, jitter in 0.0f64..1.0,
        steps in prop::collection::vec((0i64..10_000_000, 0.0f64..1.0), 1..60),
    ) {
        let max_ms = initial * factor;
        let mut backoff = Backoff::new(RestartStrategy::ExponentialDelay {
            initial_ms: initial, max_ms, multiplier, reset_threshold_ms: 3_600_000, jitter,
            attempts_before_reset: u32::MAX,
        });
        let mut now = 0;
        for (pause, random) in steps {
            now += pause;
            match backoff.failure(now, random) {
                Verdict::RestartAfter(ms) => prop_assert!((initial..=max_ms).contains(&ms)),
                Verdict::Joined(ms) => prop_assert!((0..=max_ms).contains(&ms)),
                Verdict::GiveUp { .. } => prop_assert!(false, "unlimited attempts"),
            }
        }
    }
}
