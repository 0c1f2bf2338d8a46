-- Two questions: which rows came out of order (late), and which did a window lose (dropped)?
CREATE TABLE clicks_d0 (
  user_id STRING,
  ts TIMESTAMP(3),
  seq INT,
  WATERMARK FOR ts AS ts
) WITH (
  'connector' = 'kafka',
  'topic' = 'clicks1',
  'properties.bootstrap.servers' = 'localhost:9092',
  'scan.startup.mode' = 'latest-offset',
  'format' = 'json'
);

CREATE TABLE counts_d0 (
  window_start TIMESTAMP(3),
  window_end TIMESTAMP(3),
  cnt BIGINT
) WITH (
  'connector' = 'print',
  'print-identifier' = 'd0'
);

CREATE TABLE late_events (
  user_id STRING,
  ts TIMESTAMP(3),
  seq INT,
  wm TIMESTAMP(3)
) WITH (
  'connector' = 'print',
  'print-identifier' = 'late'
);

CREATE TABLE dropped_events (
  user_id STRING,
  ts TIMESTAMP(3),
  seq INT,
  wm TIMESTAMP(3)
) WITH (
  'connector' = 'print',
  'print-identifier' = 'dropped'
);

EXECUTE STATEMENT SET BEGIN

INSERT INTO counts_d0
SELECT window_start, window_end, COUNT(*)
FROM TUMBLE(TABLE clicks_d0, DESCRIPTOR(ts), INTERVAL '10' SECOND)
GROUP BY window_start, window_end;

INSERT INTO late_events
SELECT user_id, ts, seq, CURRENT_WATERMARK(ts)
FROM clicks_d0
WHERE CURRENT_WATERMARK(ts) IS NOT NULL AND ts <= CURRENT_WATERMARK(ts);

INSERT INTO dropped_events
SELECT user_id, ts, seq, CURRENT_WATERMARK(ts)
FROM TUMBLE(TABLE clicks_d0, DESCRIPTOR(ts), INTERVAL '10' SECOND)
WHERE CURRENT_WATERMARK(ts) IS NOT NULL AND window_end <= CURRENT_WATERMARK(ts);

END;
