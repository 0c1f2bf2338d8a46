-- Users who click more than 7 times within 10 seconds, looked at every 2 seconds; they go to the topic `alarms`.
-- Runs until Ctrl-C.
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

CREATE TABLE alarms (
  user_id STRING,
  until TIMESTAMP(3),
  clicks BIGINT
) WITH (
  'connector' = 'kafka',
  'topic' = 'alarms',
  'properties.bootstrap.servers' = 'localhost:9092',
  'format' = 'json'
);

INSERT INTO alarms
SELECT user_id, window_end, COUNT(*)
FROM TABLE(HOP(TABLE clicks, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
GROUP BY user_id, window_start, window_end
HAVING COUNT(*) > 7;
