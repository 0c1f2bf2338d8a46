-- Visits: clicks of a user with less than 3 seconds between them. Runs until Ctrl-C.
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

CREATE TABLE visits (
  user_id STRING,
  began TIMESTAMP(3),
  ended TIMESTAMP(3),
  clicks BIGINT,
  entry_page STRING
) WITH ('connector' = 'print');

INSERT INTO visits
SELECT user_id, window_start, window_end, COUNT(*), FIRST_VALUE(page)
FROM TABLE(SESSION(TABLE clicks PARTITION BY user_id, DESCRIPTOR(ts), INTERVAL '3' SECOND))
GROUP BY user_id, window_start, window_end;
