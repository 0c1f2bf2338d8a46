//! The operators of one task, called one after the other without queues in between.
//!
//! The chain is synchronous. What must wait (a full queue, a sink's I/O) is collected as effects, in
//! order, and carried out by the task when the chain has returned.

use tidegate_api::metrics::{Counter, Gauge, MetricGroup};
use tidegate_api::{Batch, Result, StreamElement, Watermark, WatermarkStatus};

use crate::builtin::SinkOperator;
use crate::operator::{Operator, Output};

/// What a link of the chain is.
pub(crate) enum LinkOperator {
    /// A source or `VALUES`: the task feeds what it makes straight into the link's output.
    Head,
    /// An operator.
    Operator(Box<dyn Operator>),
    /// A sink.
    Sink(Box<SinkOperator>),
}

/// One operator of the chain and where its output goes.
pub(crate) struct Link {
    pub operator: LinkOperator,
    /// Links it feeds.
    pub children: Vec<usize>,
    /// Result partitions it feeds.
    pub partitions: Vec<usize>,
    pub metrics: LinkMetrics,
}

/// What the task counts for each operator.
pub(crate) struct LinkMetrics {
    records_in: Counter,
    records_out: Counter,
    /// Sources have no input watermark.
    input_watermark: Option<Gauge>,
    output_watermark: Gauge,
}

impl LinkMetrics {
    pub(crate) fn new(group: &MetricGroup, is_source: bool) -> Self {
        let watermark = |name: &str| group.gauge(name, Watermark::MIN.timestamp());
        LinkMetrics {
            records_in: group.counter("numRecordsIn"),
            records_out: group.counter("numRecordsOut"),
            input_watermark: (!is_source).then(|| watermark("currentInputWatermark")),
            output_watermark: watermark("currentOutputWatermark"),
        }
    }
}

/// What is left to do after the chain has run.
pub(crate) enum Effect {
    /// Send to this result partition.
    Send(usize, StreamElement),
    /// Write to the sink at this link.
    Write(usize, Batch),
}

/// A tree of operators, parents before children.
pub(crate) struct OperatorChain {
    pub links: Vec<Link>,
    pub effects: Vec<Effect>,
}

impl OperatorChain {
    /// A chain of these links.
    pub(crate) fn new(links: Vec<Link>) -> Self {
        OperatorChain { links, effects: Vec::new() }
    }

    /// Gives an element to the head.
    pub(crate) fn feed_head(&mut self, input: usize, element: StreamElement) -> Result<()> {
        self.feed(0, input, element)
    }

    /// Emits an element that the head (a source) made.
    pub(crate) fn emit_head(&mut self, element: StreamElement) -> Result<()> {
        self.emit(0, element)
    }

    /// A barrier is about to pass: operators let go of what they hold back only to save work.
    pub(crate) fn before_barrier(&mut self) -> Result<()> {
        for link in 0..self.links.len() {
            let LinkOperator::Operator(operator) = &mut self.links[link].operator else { continue };
            let mut out = Output::default();
            operator.before_barrier(&mut out)?;
            for element in out.take() {
                self.emit(link, element)?;
            }
        }
        Ok(())
    }

    /// Has one operator go on with what its last call left to do; false if there is none.
    pub(crate) fn resume(&mut self) -> Result<bool> {
        // Parents first: what they have left to do comes before what their children will be given.
        for link in 0..self.links.len() {
            if self.resume_at(link)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn resume_at(&mut self, link: usize) -> Result<bool> {
        let LinkOperator::Operator(operator) = &mut self.links[link].operator else { return Ok(false) };
        let mut out = Output::default();
        let resumed = operator.resume(&mut out)?;
        for element in out.take() {
            self.emit(link, element)?;
        }
        Ok(resumed)
    }

    /// Has the operator at a link write some of what a barrier has noted; true if nothing is left.
    pub(crate) fn save_some(&mut self, link: usize, most: usize) -> Result<bool> {
        match &mut self.links[link].operator {
            LinkOperator::Operator(operator) => operator.save_some(most),
            LinkOperator::Head | LinkOperator::Sink(_) => Ok(true),
        }
    }

    /// Counts rows that a source has read.
    pub(crate) fn count_read(&mut self, rows: usize) {
        self.links[0].metrics.records_in.add(rows as u64);
    }

    fn feed(&mut self, link: usize, input: usize, element: StreamElement) -> Result<()> {
        let Link { operator, metrics, .. } = &mut self.links[link];
        match &element {
            StreamElement::Batch(batch) => metrics.records_in.add(batch.num_rows() as u64),
            StreamElement::Watermark(watermark) => {
                if let Some(gauge) = &metrics.input_watermark {
                    gauge.set(watermark.timestamp());
                }
            }
            StreamElement::Status(_) | StreamElement::EndOfInput => {}
        }
        let operator = match operator {
            LinkOperator::Head => return self.emit(link, element),
            LinkOperator::Sink(sink) => {
                match element {
                    StreamElement::Batch(batch) => {
                        if let Some(batch) = sink.prepare(batch)? {
                            metrics.records_out.add(batch.num_rows() as u64);
                            self.effects.push(Effect::Write(link, batch));
                        }
                    }
                    StreamElement::Watermark(watermark) => {
                        sink.advance(watermark);
                        metrics.output_watermark.set(watermark.timestamp());
                    }
                    StreamElement::Status(status) => sink.set_status(status),
                    StreamElement::EndOfInput => {}
                }
                return Ok(());
            }
            LinkOperator::Operator(_) => {
                // It is called with nothing left to do.
                while self.resume_at(link)? {}
                match &mut self.links[link].operator {
                    LinkOperator::Operator(operator) => operator,
                    LinkOperator::Head | LinkOperator::Sink(_) => return Ok(()),
                }
            }
        };
        let mut out = Output::default();
        let mut after = None;
        match element {
            StreamElement::Batch(batch) => operator.process_batch(input, batch, &mut out)?,
            StreamElement::Watermark(watermark) => operator.process_watermark(watermark, &mut out)?,
            StreamElement::EndOfInput => {
                operator.end_of_input(&mut out)?;
                after = Some(StreamElement::EndOfInput);
            }
            StreamElement::Status(status) => {
                if status == WatermarkStatus::Idle {
                    operator.before_idle(&mut out)?;
                }
                after = Some(StreamElement::Status(status));
            }
        }
        for element in out.take().into_iter().chain(after) {
            self.emit(link, element)?;
        }
        Ok(())
    }

    fn emit(&mut self, link: usize, element: StreamElement) -> Result<()> {
        let Link { metrics, children, partitions, .. } = &self.links[link];
        let (children, partitions) = (children.len(), partitions.len());
        match &element {
            StreamElement::Batch(batch) => {
                metrics.records_out.add(batch.num_rows() as u64);
            }
            StreamElement::Watermark(watermark) => metrics.output_watermark.set(watermark.timestamp()),
            StreamElement::Status(_) | StreamElement::EndOfInput => {}
        }
        let receivers = children + partitions;
        let mut element = Some(element);
        for receiver in 0..receivers {
            let last = receiver + 1 == receivers;
            let Some(copy) = (if last { element.take() } else { element.clone() }) else { break };
            if receiver < children {
                let child = self.links[link].children[receiver];
                self.feed(child, 0, copy)?;
            } else {
                let partition = self.links[link].partitions[receiver - children];
                self.effects.push(Effect::Send(partition, copy));
            }
        }
        Ok(())
    }
}
