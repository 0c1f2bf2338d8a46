//! A client that sends what a test tells it to and nothing else.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use kafka_protocol::records::{
    Compression, Record, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};
use tidegate_broker::{Broker, BrokerOptions, Report};

/// No answer takes so long; a test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A broker in a temporary folder.
pub fn broker() -> Broker {
    Broker::start(options()).expect("a broker starts")
}

/// The same on a folder that outlives it.
pub fn broker_in(folder: &Path) -> Broker {
    Broker::start(BrokerOptions { data: Some(folder.to_owned()), ..options() }).expect("a broker starts")
}

/// The default without lines about closed connections, which many tests want.
pub fn options() -> BrokerOptions {
    BrokerOptions { report: Report::silent(), ..BrokerOptions::default() }
}

pub struct Client {
    stream: TcpStream,
    correlation_id: i32,
}

impl Client {
    pub fn new(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("the broker listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Client { stream, correlation_id: 0 }
    }

    /// Sends a request and reads its answer.
    pub fn call<R: Request>(&mut self, request: R, version: i16) -> R::Response {
        let id = self.send(&request, version);
        self.receive::<R>(id, version)
    }

    /// Sends a request; gives its correlation id.
    pub fn send<R: Request>(&mut self, request: &R, version: i16) -> i32 {
        self.correlation_id += 1;
        self.write(&frame(request, version, self.correlation_id)).expect("the broker reads");
        self.correlation_id
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Reads the answer to the request with that correlation id, which must come next.
    pub fn receive<R: Request>(&mut self, correlation_id: i32, version: i16) -> R::Response {
        let mut body = self.read_frame().expect("the broker answers");
        let header = ResponseHeader::decode(&mut body, R::Response::header_version(version)).expect("a header");
        assert_eq!(header.correlation_id, correlation_id);
        let response = R::Response::decode(&mut body, version).expect("a response");
        assert_eq!(body.remaining(), 0, "bytes behind the response");
        response
    }

    pub fn read_frame(&mut self) -> io::Result<Bytes> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut body)?;
        Ok(Bytes::from(body))
    }

    /// Whether the broker has closed this connection and sent nothing before.
    pub fn is_closed(&mut self) -> bool {
        // A broker that closes with bytes unread resets the connection.
        match self.stream.read(&mut [0]) {
            Ok(read) => read == 0,
            Err(e) => matches!(e.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe),
        }
    }

    pub fn create(&mut self, topic: &str, partitions: i32) -> uuid::Uuid {
        self.create_with(topic, partitions, &[])
    }

    pub fn create_with(&mut self, topic: &str, partitions: i32, configs: &[(&str, &str)]) -> uuid::Uuid {
        let configs = configs
            .iter()
            .map(|(name, value)| CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value))))
            .collect();
        let topic = CreatableTopic::default()
            .with_name(name(topic))
            .with_num_partitions(partitions)
            .with_replication_factor(1)
            .with_configs(configs);
        let response = self.call(CreateTopicsRequest::default().with_topics(vec![topic]), 7);
        assert_eq!(response.topics[0].error_code, 0, "{:?}", response.topics[0].error_message);
        response.topics[0].topic_id
    }

    /// Produces one batch and demands success.
    pub fn produce(&mut self, topic: &str, partition: i32, records: Bytes) -> PartitionProduceResponse {
        let response = self.call(produce_request(topic, partition, records), 9);
        let response = response.responses[0].partition_responses[0].clone();
        assert_eq!(response.error_code, 0, "produce to {topic}-{partition}");
        response
    }

    /// Fetches what is there in one partition.
    pub fn fetch(&mut self, topic: &str, partition: i32, offset: i64) -> PartitionData {
        let response = self.call(fetch_request(topic, partition, offset), 12);
        assert_eq!(response.error_code, 0);
        response.responses[0].partitions[0].clone()
    }

    /// The values in one partition.
    pub fn values(&mut self, topic: &str, partition: i32) -> Vec<String> {
        values(&self.fetch(topic, partition, 0))
    }
}

/// A request as it stands on the wire, with its length.
pub fn frame<R: Request>(request: &R, version: i16, correlation_id: i32) -> Bytes {
    let mut body = BytesMut::new();
    RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(text("test")))
        .encode(&mut body, R::header_version(version))
        .expect("a header");
    request.encode(&mut body, version).expect("a request of this version");
    let mut frame = BytesMut::new();
    frame.put_u32(body.len() as u32);
    frame.put(body);
    frame.freeze()
}

pub fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub fn name(topic: &str) -> TopicName {
    TopicName(text(topic))
}

/// One batch of values without keys.
pub fn batch(values: &[&str]) -> Bytes {
    batch_with(values, |record| record)
}

/// One batch, each record of which is changed on its way.
pub fn batch_with(values: &[&str], change: impl Fn(Record) -> Record) -> Bytes {
    let records: Vec<Record> = (0..).zip(values).map(|(i, value)| change(record(i, value))).collect();
    let mut bytes = BytesMut::new();
    let options = RecordEncodeOptions { version: 2, compression: Compression::None };
    RecordBatchEncoder::encode(&mut bytes, &records, &options).expect("records can be written");
    bytes.freeze()
}

fn record(index: i64, value: &str) -> Record {
    Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: -1,
        producer_id: -1,
        producer_epoch: -1,
        timestamp_type: TimestampType::Creation,
        offset: index,
        // The encoder makes one batch of records whose sequences ascend; this one has none, which is -1.
        sequence: index as i32 - 1,
        timestamp: 1_700_000_000_000 + index,
        key: None,
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        headers: IndexMap::new(),
    }
}

pub fn produce_request(topic: &str, partition: i32, records: Bytes) -> ProduceRequest {
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(records));
    let topic = TopicProduceData::default().with_name(name(topic)).with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(-1).with_timeout_ms(10_000).with_topic_data(vec![topic])
}

/// A fetch that does not wait.
pub fn fetch_request(topic: &str, partition: i32, offset: i64) -> FetchRequest {
    let asked =
        FetchPartition::default().with_partition(partition).with_fetch_offset(offset).with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default().with_topic(name(topic)).with_partitions(vec![asked]);
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(0)
        .with_min_bytes(1)
        .with_max_bytes(50 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![topic])
}

/// The values of the records in an answer to a fetch.
pub fn values(data: &PartitionData) -> Vec<String> {
    let mut bytes = data.records.clone().unwrap_or_default();
    let mut values = Vec::new();
    while bytes.has_remaining() {
        let set = RecordBatchDecoder::decode(&mut bytes).expect("whole batches");
        for record in set.records {
            values.push(String::from_utf8(record.value.unwrap_or_default().to_vec()).expect("text"));
        }
    }
    values
}
