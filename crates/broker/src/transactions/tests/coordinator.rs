//! The coordinator with its participants: what restarts, timeouts and failing disks do to a transaction.

use kafka_protocol::ResponseError;

use super::super::{EXPIRATION_MS, Identity, SLACK, TxnState};
use super::world::World;

/// Produce and TxnOffsetCommit of version 1 and 2 of the transaction protocol.
const V1: i16 = 11;
const V2: i16 = 12;
const OFFSETS_V1: i16 = 3;
const OFFSETS_V2: i16 = 5;

fn state(world: &World, id: &str) -> TxnState {
    world.coordinator().describe(id).expect("the id is known").state
}

fn begin(world: &World, id: &str, value: u64) -> Identity {
    let producer = world.init(id, None).expect("it can be initialized");
    world.produce(id, producer, 0, value, V2).expect("it can produce");
    producer
}

#[test]
fn an_open_transaction_survives_a_restart_and_times_out_from_its_beginning() {
    let mut world = World::new();
    let producer = begin(&world, "x", 1);
    world.now_ms += 59_000;
    world.open();
    assert_eq!((state(&world, "x"), world.open_count()), (TxnState::Ongoing, 1));
    world.tick();
    assert_eq!(state(&world, "x"), TxnState::Ongoing);
    world.now_ms += 1_001;
    world.tick();
    assert_eq!((state(&world, "x"), world.open_count()), (TxnState::CompleteAbort, 0));
    assert_eq!(world.end("x", producer, true, false), Err(ResponseError::ProducerFenced));
    assert_eq!(world.produce("x", producer, 0, 2, V2), Err(ResponseError::InvalidProducerEpoch));
    assert_eq!(world.append(0, producer, 2), Err(ResponseError::InvalidProducerEpoch), "the log fences it too");
    assert!(world.visible().is_empty());
}

#[test]
fn a_decided_commit_is_finished_whenever_the_disk_allows() {
    for markers in 0..3 {
        let mut world = World::new();
        let producer = begin(&world, "x", 1);
        world.produce("x", producer, 1, 2, V2).expect("it can produce");
        world.stage("x", producer, "g", 7, OFFSETS_V2).expect("it can stage offsets");
        world.fail_after(markers);
        let next = world.end("x", producer, true, true).expect("the outcome is in the journal");
        assert_eq!((next.id, next.epoch), (producer.id, producer.epoch + 1));
        assert_eq!(state(&world, "x"), TxnState::PrepareCommit);
        assert_eq!(world.committed_offset("g"), None);
        assert_eq!(world.produce("x", next, 0, 3, V2).err(), Some(ResponseError::ConcurrentTransactions));
        assert_eq!(world.produce("x", next, 0, 3, V1).err(), Some(ResponseError::NotEnoughReplicas));
        assert_eq!(world.init("x", None), Err(ResponseError::ConcurrentTransactions));
        assert_eq!(world.end("x", producer, true, true), Err(ResponseError::ConcurrentTransactions));
        world.tick();
        assert_eq!(state(&world, "x"), TxnState::PrepareCommit, "the disk still fails");
        world.open();
        assert_eq!(state(&world, "x"), TxnState::CompleteCommit);
        assert_eq!((world.visible(), world.committed_offset("g")), (vec![1, 2], Some(7)));
        assert_eq!(world.end("x", producer, true, true), Ok(next), "a retry learns the new epoch");
        world.produce("x", next, 0, 3, V2).expect("the producer goes on");
    }
}

#[test]
fn version_1_keeps_the_epoch_and_repeats_ends() {
    let world = World::new();
    let producer = world.init("x", None).expect("it can be initialized");
    for (value, commit) in [(1, true), (2, false), (3, true)] {
        let partitions = [("t".to_owned(), 0)];
        world.coordinator().add_partitions("x", producer, &partitions, world.now_ms).expect("it can add");
        world.produce("x", producer, 0, value, V1).expect("it can produce");
        assert_eq!(world.end("x", producer, commit, false), Ok(producer));
        assert_eq!(world.end("x", producer, commit, false), Ok(producer));
        assert_eq!(world.end("x", producer, !commit, false), Err(ResponseError::InvalidTxnState));
    }
    assert_eq!(world.visible(), [1, 3]);
}

#[test]
fn version_1_must_add_first_and_is_told_so_in_words_it_knows() {
    let world = World::new();
    let producer = world.init("x", None).expect("it can be initialized");
    assert_eq!(world.produce("x", producer, 0, 1, 10), Err(ResponseError::InvalidTxnState));
    assert_eq!(world.produce("x", producer, 0, 1, 11), Err(ResponseError::TransactionAbortable));
    assert_eq!(world.stage("x", producer, "g", 1, 3), Err(ResponseError::InvalidTxnState));
    assert_eq!(world.stage("x", producer, "g", 1, 4), Err(ResponseError::TransactionAbortable));
    world.coordinator().add_offsets("x", producer, "g", world.now_ms).expect("it can add");
    world.stage("x", producer, "g", 1, OFFSETS_V1).expect("the group was added");
    assert_eq!(world.stage("x", producer, "h", 1, OFFSETS_V1), Err(ResponseError::InvalidTxnState));
    let partitions = [("t".to_owned(), 0), ("t".to_owned(), 1)];
    world.coordinator().add_partitions("x", producer, &partitions[..1], world.now_ms).expect("it can add");
    let verified = world.coordinator().verify_partitions("x", producer, &partitions);
    assert_eq!(verified, Ok(vec![Ok(()), Err(ResponseError::TransactionAbortable)]));
    assert_eq!(world.produce("nobody", producer, 0, 1, V2), Err(ResponseError::InvalidProducerIdMapping));
    assert_eq!(world.end("nobody", producer, true, true), Err(ResponseError::InvalidProducerIdMapping));
}

#[test]
fn staged_offsets_appear_with_the_commit_and_only_then() {
    let world = World::new();
    for (value, commit, seen) in [(7, false, None), (8, true, Some(8)), (9, false, Some(8))] {
        let producer = world.init("x", None).expect("it can be initialized");
        world.stage("x", producer, "g", value, OFFSETS_V2).expect("it can stage offsets");
        let unstable = world.groups().fetch("g", Some(vec![("t".to_owned(), 0)]), true);
        assert_eq!(unstable[0].1, Err(ResponseError::UnstableOffsetCommit));
        world.end("x", producer, commit, true).expect("it can be ended");
        assert_eq!(world.committed_offset("g"), seen);
        assert!(world.groups().fetch("g", None, true).iter().all(|(_, offset)| offset.is_ok()));
    }
}

#[test]
fn a_newer_producer_aborts_the_older_ones_transaction_first() {
    let world = World::new();
    let old = begin(&world, "x", 1);
    assert_eq!(world.init("x", None), Err(ResponseError::ConcurrentTransactions));
    assert_eq!(state(&world, "x"), TxnState::CompleteAbort);
    let new = world.init("x", None).expect("nothing is in the way any more");
    assert!(new.id == old.id && new.epoch > old.epoch);
    assert_eq!(world.end("x", old, true, true), Err(ResponseError::ProducerFenced));
    assert_eq!(world.produce("x", old, 0, 2, V2), Err(ResponseError::InvalidProducerEpoch));
    assert_eq!(world.init("x", Some(old)), Err(ResponseError::ProducerFenced));
    assert!(world.visible().is_empty() && world.open_count() == 0);
}

#[test]
fn nothing_ends_while_a_record_is_on_its_way() {
    let mut world = World::new();
    let producer = begin(&world, "x", 1);
    let appending = world
        .coordinator()
        .verify_produce("x", producer.id, producer.epoch, "t", 0, V2, world.now_ms)
        .expect("it may append");
    assert_eq!(world.end("x", producer, true, true), Err(ResponseError::ConcurrentTransactions));
    assert_eq!(world.init("x", None), Err(ResponseError::ConcurrentTransactions));
    world.now_ms += 100_000;
    world.tick();
    assert_eq!(state(&world, "x"), TxnState::Ongoing);
    world.append(0, producer, 2).expect("nobody fenced it");
    drop(appending);
    world.end("x", producer, true, true).expect("it is quiet");
    assert_eq!(world.visible(), [1, 2]);
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let world = World::new();
    let coordinator = world.coordinator();
    let init = |id, timeout_ms| coordinator.init_producer_id(&world, id, timeout_ms, None, world.now_ms);
    assert_eq!(init(Some(""), 1), Err(ResponseError::InvalidRequest));
    for timeout_ms in [0, -1, 900_001, i32::MAX] {
        assert_eq!(init(Some("x"), timeout_ms), Err(ResponseError::InvalidTransactionTimeout));
    }
    assert!(init(Some("x"), 900_000).is_ok());
    assert!(init(None, 0).is_ok(), "an idempotent producer has no timeout");
    let nobody = Identity { id: 1, epoch: 0 };
    assert_eq!(coordinator.add_offsets("", nobody, "g", world.now_ms), Err(ResponseError::InvalidRequest));
}

#[test]
fn producer_ids_are_never_given_twice() {
    let mut world = World::new();
    let mut last = -1;
    for round in 0..2_500 {
        let next = world.coordinator().init_producer_id(&world, None, 0, None, world.now_ms).expect("an id");
        assert!(next.id > last && next.epoch == 0);
        last = next.id;
        if round % 400 == 0 {
            world.open();
        }
    }
}

#[test]
fn a_transaction_that_only_a_log_knows_is_aborted_at_the_start() {
    let mut world = World::new();
    let producer = begin(&world, "x", 1);
    world.append(0, Identity { id: 77, epoch: 3 }, 9).expect("the log takes it");
    world.append(5, producer, 8).expect("the log takes it");
    world.open();
    assert_eq!(world.open_count(), 1, "only the transaction in the journal is still open");
    world.end("x", producer, true, true).expect("it can be ended");
    assert_eq!(world.visible(), [1]);
}

#[test]
fn a_deleted_topic_leaves_every_transaction() {
    let mut world = World::new();
    begin(&world, "x", 1);
    world.coordinator().topic_deleted("t").expect("the journal can be written");
    assert!(world.coordinator().describe("x").expect("the id is known").partitions.is_empty());
    world.open();
    assert!(world.coordinator().describe("x").expect("the id is known").partitions.is_empty());
}

#[test]
fn unused_ids_are_forgotten_and_the_journal_stays_short() {
    let mut world = World::new();
    let mut producer = world.init("x", None).expect("it can be initialized");
    world.init("y", None).expect("it can be initialized");
    for value in 0..(SLACK as u64 / 2) {
        world.produce("x", producer, 0, value, V2).expect("it can produce");
        producer = world.end("x", producer, true, true).expect("it can be ended");
    }
    let long = world.journal_lengths().0;
    world.tick();
    let short = world.journal_lengths().0;
    assert!(short < 2_000 && long > 100 * short, "{long} and {short} bytes");
    let id = world.coordinator().init_producer_id(&world, None, 0, None, world.now_ms).expect("an id").id;
    world.open();
    assert_eq!(world.coordinator().describe("x").expect("the id is known").producer, producer);
    let next = world.coordinator().init_producer_id(&world, None, 0, None, world.now_ms).expect("an id").id;
    assert!(next > id, "the journal still says which ids were given");
    world.produce("x", producer, 0, 0, V2).expect("it can produce");
    world.now_ms += EXPIRATION_MS;
    world.tick();
    assert!(world.coordinator().describe("y").is_none());
    assert_eq!(state(&world, "x"), TxnState::CompleteAbort, "an open one is aborted first");
    world.now_ms += EXPIRATION_MS;
    world.tick();
    world.open();
    assert!(world.coordinator().list().is_empty());
}
