-- Clicks per 10 seconds of event time, from a file whose rows are out of order.
-- The watermark waits 5 seconds for stragglers; a row that comes later than that is dropped, and said to be.

CREATE TABLE clicks (
  user_id STRING,
  ts      TIMESTAMP(3),
  seq     BIGINT,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH (
  'connector' = 'filesystem',
  'path'      = 'examples/clicks/clicks.json',
  'format'    = 'json'
);

CREATE TABLE per_window (
  window_start TIMESTAMP(3),
  window_end   TIMESTAMP(3),
  clicks       BIGINT,
  users        BIGINT
) WITH ('connector' = 'print', 'print-identifier' = 'window');

CREATE TABLE too_late (
  user_id   STRING,
  ts        TIMESTAMP(3),
  seq       BIGINT,
  wm        TIMESTAMP(3)
) WITH ('connector' = 'print', 'print-identifier' = 'late');

EXECUTE STATEMENT SET BEGIN
  INSERT INTO per_window
    SELECT window_start, window_end, COUNT(*), COUNT(DISTINCT user_id)
    FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' SECOND))
    GROUP BY window_start, window_end;

  INSERT INTO too_late
    SELECT user_id, ts, seq, CURRENT_WATERMARK(ts)
    FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' SECOND))
    WHERE CURRENT_WATERMARK(ts) IS NOT NULL AND window_end <= CURRENT_WATERMARK(ts);
END;
