//! Every transition and every refusal of one transactional id, as tables.

use kafka_protocol::ResponseError;

use super::super::machine::{End, EndRequest, Identity, Init, Txn, TxnState};

const NOW: i64 = 1_000;

/// A transactional id with producer id 7 in a state; epoch 5, and 4 before it.
fn txn(state: TxnState) -> Txn {
    let mut txn = Txn { epoch: 5, last_epoch: 4, ..Txn::new(7, 60_000, 0) };
    if state != TxnState::Empty {
        txn.add(&[("t".to_owned(), 0)], Some("g"), 10);
    }
    txn.state = state;
    txn
}

fn state(name: &str) -> TxnState {
    *TxnState::ALL.iter().find(|state| state.name() == name).expect("a state")
}

fn ended(result: Result<End, ResponseError>) -> String {
    match result {
        Ok(End::Repeated(identity)) => format!("NONE@{}", identity.epoch),
        Ok(End::Prepared(txn)) => format!("{}@{}", txn.state.name(), txn.epoch),
        Ok(End::NeedsProducerId) => "id".to_owned(),
        Err(ResponseError::ProducerFenced) => "PF".to_owned(),
        Err(ResponseError::InvalidTxnState) => "ITS".to_owned(),
        Err(ResponseError::ConcurrentTransactions) => "CT".to_owned(),
        Err(ResponseError::InvalidProducerIdMapping) => "PIM".to_owned(),
        Err(error) => panic!("{error} is no answer to EndTxn"),
    }
}

/// The rows of Kafka's comment on `TransactionCoordinator.endTransaction`, and those it leaves out.
/// Columns: state; version 1, commit and abort with the current epoch; version 2, commit and abort with
/// the current epoch; commit and abort with the epoch before.
const END: &str = "
    Empty          ITS             ITS            ITS             PrepareAbort@6 PF     PF
    Ongoing        PrepareCommit@5 PrepareAbort@5 PrepareCommit@6 PrepareAbort@6 PF     PF
    PrepareCommit  CT              ITS            PF              PF             CT     ITS
    PrepareAbort   ITS             CT             PF              PF             ITS    CT
    CompleteCommit NONE@5          ITS            ITS             PrepareAbort@6 NONE@5 ITS
    CompleteAbort  ITS             NONE@5         ITS             PrepareAbort@6 ITS    NONE@5
";

#[test]
fn end_txn_answers_as_the_table_of_kafka_says() {
    for row in END.trim().lines() {
        let cells: Vec<&str> = row.split_whitespace().collect();
        let txn = txn(state(cells[0]));
        let end = |bumps_epoch, epoch, commit| {
            let producer = Identity { id: 7, epoch };
            ended(txn.end(EndRequest { producer, commit, bumps_epoch }, None, NOW))
        };
        let got = [
            end(false, 5, true),
            end(false, 5, false),
            end(true, 5, true),
            end(true, 5, false),
            end(true, 4, true),
            end(true, 4, false),
        ];
        assert_eq!(got.as_slice(), &cells[1..], "{}", cells[0]);
        for epoch in [3, 4, 6] {
            assert_eq!(end(false, epoch, true), "PF", "version 1 knows no retry by an older epoch");
        }
        for epoch in [3, 6, -1, i16::MAX] {
            assert_eq!(end(true, epoch, false), "PF");
        }
        for bumps_epoch in [false, true] {
            let producer = Identity { id: 8, epoch: 5 };
            assert_eq!(ended(txn.end(EndRequest { producer, commit: true, bumps_epoch }, None, NOW)), "PIM");
        }
    }
}

fn initialized(result: Result<Init, ResponseError>) -> String {
    match result {
        Ok(Init::Ready(txn)) => format!("{}@{}", txn.state.name(), txn.epoch),
        Ok(Init::Abort(txn)) => format!("abort@{}", txn.epoch),
        Ok(Init::NeedsProducerId) => "id".to_owned(),
        Err(ResponseError::ProducerFenced) => "PF".to_owned(),
        Err(ResponseError::ConcurrentTransactions) => "CT".to_owned(),
        Err(error) => panic!("{error} is no answer to InitProducerId"),
    }
}

/// Columns: state; a new producer; one that goes on with the current epoch, the last one, an older one;
/// one with another producer id.
const INIT: &str = "
    Empty          Empty@6 Empty@6 Empty@5 PF      PF
    Ongoing        abort@6 abort@6 abort@6 abort@6 PF
    PrepareCommit  CT      CT      CT      CT      PF
    PrepareAbort   CT      CT      CT      CT      PF
    CompleteCommit Empty@6 Empty@6 Empty@5 PF      PF
    CompleteAbort  Empty@6 Empty@6 Empty@5 PF      PF
";

#[test]
fn init_producer_id_fences_or_lets_the_holder_go_on() {
    for row in INIT.trim().lines() {
        let cells: Vec<&str> = row.split_whitespace().collect();
        let txn = txn(state(cells[0]));
        let expected = [None, Some((7, 5)), Some((7, 4)), Some((7, 3)), Some((8, 5))];
        let got = expected.map(|expected| {
            let expected = expected.map(|(id, epoch)| Identity { id, epoch });
            initialized(txn.init(expected, 30_000, NOW))
        });
        assert_eq!(got.as_slice(), &cells[1..], "{}", cells[0]);
    }
}

#[test]
fn the_first_initialization_gives_epoch_0_to_anybody() {
    let new = Txn::new(7, 60_000, 0);
    for expected in [None, Some(Identity { id: 3, epoch: 9 })] {
        assert_eq!(initialized(new.init(expected, 60_000, NOW)), "Empty@0");
    }
    let Ok(Init::Ready(txn)) = new.init(None, 30_000, NOW) else { panic!("a new id is ready") };
    assert_eq!((txn.timeout_ms, txn.update_ms, txn.start_ms), (30_000, NOW, -1));
}

#[test]
fn only_the_holder_adds_and_only_between_ends() {
    let cases = [
        ("Empty", 7, 5, None),
        ("Ongoing", 7, 5, None),
        ("CompleteCommit", 7, 5, None),
        ("CompleteAbort", 7, 5, None),
        ("PrepareCommit", 7, 5, Some(ResponseError::ConcurrentTransactions)),
        ("PrepareAbort", 7, 5, Some(ResponseError::ConcurrentTransactions)),
        ("Ongoing", 7, 4, Some(ResponseError::ProducerFenced)),
        ("Ongoing", 7, 6, Some(ResponseError::ProducerFenced)),
        ("PrepareCommit", 7, 4, Some(ResponseError::ProducerFenced)),
        ("Ongoing", 8, 5, Some(ResponseError::InvalidProducerIdMapping)),
    ];
    for (name, id, epoch, error) in cases {
        assert_eq!(txn(state(name)).check(Identity { id, epoch }).err(), error, "{name} {id} {epoch}");
    }
}

#[test]
fn the_first_addition_starts_the_clock_and_later_ones_do_not() {
    let mut txn = Txn::new(7, 60_000, 0);
    txn.add(&[("t".to_owned(), 0)], None, 100);
    txn.add(&[("t".to_owned(), 1)], Some("g"), 200);
    assert_eq!((txn.state, txn.start_ms, txn.update_ms), (TxnState::Ongoing, 100, 200));
    assert!(txn.has_all(&[("t".to_owned(), 0), ("t".to_owned(), 1)], Some("g")));
    assert!(!txn.has_all(&[("t".to_owned(), 2)], None) && !txn.has_all(&[], Some("h")));
    assert!(!txn.is_timed_out(60_100) && txn.is_timed_out(60_101));

    let Ok(End::Prepared(prepared)) =
        txn.end(EndRequest { producer: Identity { id: 7, epoch: -1 }, commit: true, bumps_epoch: false }, None, 300)
    else {
        panic!("an open transaction can be committed")
    };
    assert!(!prepared.is_timed_out(i64::MAX), "what is decided cannot time out");
    let complete = prepared.completed(400);
    assert!(complete.partitions.is_empty() && complete.groups.is_empty());
    assert!(!complete.has_all(&[("t".to_owned(), 0)], None), "a new transaction begins with nothing");
    let mut next = complete;
    next.add(&[("t".to_owned(), 0)], None, 500);
    assert_eq!((next.start_ms, next.partitions.len()), (500, 1));
}

#[test]
fn a_timeout_fences_the_holder_until_it_learns_of_it() {
    let aborted = txn(TxnState::Ongoing).fenced(NOW).completed(NOW);
    assert_eq!((aborted.state, aborted.epoch), (TxnState::CompleteAbort, 6));
    for (bumps_epoch, commit, answer) in
        [(false, false, "PF"), (false, true, "PF"), (true, true, "ITS"), (true, false, "NONE@6")]
    {
        let late = EndRequest { producer: Identity { id: 7, epoch: 5 }, commit, bumps_epoch };
        assert_eq!(ended(aborted.end(late, None, NOW)), answer);
    }
    let on = Some(Identity { id: 7, epoch: 5 });
    assert_eq!(initialized(aborted.init(on, 60_000, NOW)), "Empty@6");
    let Ok(Init::Ready(newer)) = aborted.init(None, 60_000, NOW) else { panic!("nothing is in the way") };
    assert_eq!(newer.epoch, 7);
    assert_eq!(initialized(newer.init(on, 60_000, NOW)), "PF");
    for commit in [false, true] {
        let late = EndRequest { producer: Identity { id: 7, epoch: 6 }, commit, bumps_epoch: true };
        assert_eq!(ended(newer.end(late, None, NOW)), "PF");
    }
}

#[test]
fn used_up_epochs_lead_to_a_new_producer_id() {
    let last = i16::MAX - 1;
    let old = Txn { epoch: last, last_epoch: last - 1, ..txn(TxnState::Ongoing) };
    let end = |txn: &Txn, id, epoch, commit, next_id| {
        txn.end(EndRequest { producer: Identity { id, epoch }, commit, bumps_epoch: true }, next_id, NOW)
    };
    assert_eq!(end(&old, 7, last, true, None), Ok(End::NeedsProducerId));
    let Ok(End::Prepared(prepared)) = end(&old, 7, last, true, Some(9)) else { panic!("it can be committed") };
    assert_eq!(prepared.identity(), Identity { id: 7, epoch: i16::MAX }, "the marker is the old producer's");
    assert_eq!(prepared.identity_after_end(), Identity { id: 9, epoch: 0 });
    assert_eq!(ended(end(&prepared, 7, last, true, None)), "CT");

    let complete = prepared.completed(NOW);
    assert_eq!((complete.identity(), complete.previous_producer_id), (Identity { id: 9, epoch: 0 }, 7));
    assert_eq!(end(&complete, 7, last, true, None), Ok(End::Repeated(Identity { id: 9, epoch: 0 })));
    assert_eq!(ended(end(&complete, 7, last, false, None)), "ITS");
    assert_eq!(ended(end(&complete, 7, last - 1, true, None)), "PIM");
    let mut next = complete;
    next.add(&[("t".to_owned(), 0)], None, NOW);
    assert_eq!(ended(end(&next, 7, last, true, None)), "PF");
    assert_eq!(ended(end(&next, 9, 0, true, None)), "PrepareCommit@1");
}

#[test]
fn a_used_up_producer_id_is_replaced_at_its_next_initialization() {
    let last = i16::MAX - 1;
    let old = Txn { epoch: last, ..txn(TxnState::CompleteCommit) };
    let holder = Some(Identity { id: 7, epoch: last });
    for expected in [None, holder] {
        assert_eq!(initialized(old.init(expected, 60_000, NOW)), "id");
    }
    let rotated = old.rotated(9, holder, 60_000, NOW);
    assert_eq!((rotated.identity(), rotated.last_epoch), (Identity { id: 9, epoch: 0 }, last));
    assert_eq!(initialized(rotated.init(holder, 60_000, NOW)), "Empty@0", "the holder asks again");
    assert_eq!(initialized(old.rotated(9, None, 60_000, NOW).init(holder, 60_000, NOW)), "PF");
    let fenced = Txn { epoch: last, ..txn(TxnState::Ongoing) }.fenced(NOW).completed(NOW);
    assert_eq!(fenced.epoch, i16::MAX);
    assert_eq!(initialized(fenced.init(None, 60_000, NOW)), "id");
}

#[test]
fn only_ids_at_rest_expire() {
    for state in TxnState::ALL {
        let resting = matches!(state, TxnState::Empty | TxnState::CompleteCommit | TxnState::CompleteAbort);
        let txn = Txn { update_ms: 1_000, ..txn(state) };
        assert!(!txn.is_expired(1_499, 500), "{}", state.name());
        assert_eq!(txn.is_expired(1_500, 500), resting, "{}", state.name());
    }
}
