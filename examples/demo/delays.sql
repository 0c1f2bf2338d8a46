-- Clicks per 5 seconds of event time, counted three times: by watermarks that wait 0, 2 and 5 seconds
-- for clicks that come late. The longer the wait, the fewer are lost, and the later comes the result.

-- A partition without a click for 2 seconds does not hold the watermark back any longer.
SET 'table.exec.source.idle-timeout' = '2 s';

CREATE TABLE clicks_d0 (
  user_id STRING,
  ts      TIMESTAMP(3),
  seq     BIGINT,
  WATERMARK FOR ts AS ts
) WITH (
  'connector' = 'kafka',
  'topic' = 'clicks',
  'properties.bootstrap.servers' = 'localhost:9092',
  'scan.startup.mode' = 'earliest-offset',
  'format' = 'json'
);

CREATE TABLE clicks_d2 (
  WATERMARK FOR ts AS ts - INTERVAL '2' SECOND
) LIKE clicks_d0 (OVERWRITING WATERMARKS);

CREATE TABLE clicks_d5 (
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) LIKE clicks_d0 (OVERWRITING WATERMARKS);

CREATE TABLE counts_d0 (
  window_start TIMESTAMP(3),
  window_end   TIMESTAMP(3),
  clicks       BIGINT
) WITH (
  'connector' = 'print',
  'print-identifier' = 'd0'
);

CREATE TABLE counts_d2 WITH ('print-identifier' = 'd2') LIKE counts_d0;

CREATE TABLE counts_d5 WITH ('print-identifier' = 'd5') LIKE counts_d0;

EXECUTE STATEMENT SET BEGIN

INSERT INTO counts_d0
SELECT window_start, window_end, COUNT(*)
FROM TUMBLE(TABLE clicks_d0, DESCRIPTOR(ts), INTERVAL '5' SECOND)
GROUP BY window_start, window_end;

INSERT INTO counts_d2
SELECT window_start, window_end, COUNT(*)
FROM TUMBLE(TABLE clicks_d2, DESCRIPTOR(ts), INTERVAL '5' SECOND)
GROUP BY window_start, window_end;

INSERT INTO counts_d5
SELECT window_start, window_end, COUNT(*)
FROM TUMBLE(TABLE clicks_d5, DESCRIPTOR(ts), INTERVAL '5' SECOND)
GROUP BY window_start, window_end;

END;
