-- Clicks of each page in windows of 10 seconds, as they close. Runs until Ctrl-C.
CREATE TABLE clicks (
  user_id STRING,
  page STRING,
  ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH (
  'connector' = 'kafka',
  'topic' = 'clicks',
  'properties.bootstrap.servers' = 'localhost:9092',
  'scan.startup.mode' = 'earliest-offset',
  'format' = 'json'
);

CREATE TABLE page_counts (
  window_start TIMESTAMP(3),
  page STRING,
  clicks BIGINT,
  users BIGINT
) WITH ('connector' = 'print');

INSERT INTO page_counts
SELECT window_start, page, COUNT(*), COUNT(DISTINCT user_id)
FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' SECOND))
GROUP BY window_start, window_end, page;
